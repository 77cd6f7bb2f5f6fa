"""Tables of a test's own, and Redis with nobody but them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.services.table import Table


@pytest.fixture
def make(kafka: str, redis_url: str, tmp_path: Path, table: str) -> Iterator[Callable[..., Table]]:
    """Makes the test's table; what is said changes its policy. Its workers end with the test."""
    made: list[Table] = []

    def _make(**changes: Any) -> Table:
        made.append(Table(kafka, redis_url, tmp_path, table, **changes))
        return made[-1]

    yield _make
    for one in made:
        one.close()
