"""What a test does where something that it needs is missing: it is skipped, and in CI it fails."""

import os
from typing import NoReturn

import pytest


def fail_if_required(reason: object) -> None:
    """Under SHOAL_REQUIRE_SERVICES nothing may be skipped for want of a service or a tool."""
    if os.environ.get("SHOAL_REQUIRE_SERVICES", "") not in ("", "0"):
        pytest.fail(f"SHOAL_REQUIRE_SERVICES is set: {reason}", pytrace=False)


def skip_or_fail(reason: object) -> NoReturn:
    fail_if_required(reason)
    pytest.skip(str(reason))
