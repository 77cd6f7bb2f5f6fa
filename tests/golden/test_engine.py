"""The same events give the same bytes, as long as the engine has the same version."""

import json

import pytest

from shoal.core.signatures import tuning
from shoal.core.state import ENGINE
from tests.golden.engine_digests import RECORDED, digests

RECORD = "`python -m tests.golden.engine_digests`"


def test_an_engine_of_this_version_makes_what_was_recorded() -> None:
    recorded = json.loads(RECORDED.read_text())
    assert recorded["engine"] == ENGINE, f"the engine has another version: record what it makes with {RECORD}"
    assert digests() == recorded["histories"], f"the same events give other bytes: raise ENGINE, then {RECORD}"


def test_an_engine_that_makes_something_else_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from shoal.core.signatures import settling

    monkeypatch.setattr(settling, "PLAIN_ROWS", tuning.PLAIN_ROWS // 4)
    assert digests() != json.loads(RECORDED.read_text())["histories"]
