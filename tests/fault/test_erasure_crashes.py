"""kill -9 right after every step of the release that erases somebody: the next worker erases them, once."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from shoal.core.randomness import Keyed
from tests.fault.scene import PATIENCE_S
from tests.support.canary import ATTRIBUTES, ID, canary, crowd, everything_in, found_in, identifiers, names
from tests.support.services.table import KEY, REDRAWN, Table

BEFORE: Final = (
    "ingest.2", "ingest.3", "release.1", "release.2", "release.4.part", "release.4",
)  # fmt: skip
AFTER: Final = ("release.5", "release.8.open", "release.8", "release.9.part", "release.9", "release.10")


@pytest.fixture
def besieged(kafka: str, redis_db: str, table: str, tmp_path: Path) -> Iterator[Callable[..., Table]]:
    made: list[Table] = []

    def make(**changes: Any) -> Table:
        made.append(Table(kafka, redis_db, tmp_path, table, 2, attributes=ATTRIBUTES, **changes))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("changes", "points"),
    [({}, (*BEFORE, *AFTER)), (REDRAWN, ("ingest.3", "release.4", "release.5", "release.9.part"))],
    ids=["lasting", "redrawn"],
)
def test_an_erasure_killed_anywhere_is_done_by_the_next_worker(
    besieged: Callable[..., Table], changes: dict[str, Any], points: tuple[str, ...]
) -> None:
    beset = besieged(**changes)
    handle = Keyed(KEY.encode(), beset.name).handle(ID).encode()
    worker = beset.start_planner()
    beset.send(crowd(60))
    with beset.connect() as client:
        for number, point in enumerate(points):
            beset.send([canary()])
            beset.release()
            worker.await_log("release.applied", PATIENCE_S, count=min(number, 1) + 1)
            assert worker.stop() == 0, worker.log
            assert found_in(everything_in(client, beset), identifiers()), "the search does not find somebody present"
            beset.send([{"op": "erase", "id": ID}])
            beset.request()
            assert beset.start(CRASH_AT=point).wait(PATIENCE_S) == -9, point
            if point in BEFORE:
                assert found_in(everything_in(client, beset), identifiers()), f"{point}: erased before it is published"
            worker = beset.start_planner()
            beset.await_releases(2 * number + 2, PATIENCE_S)
            if point != "release.10":
                worker.await_log("release.applied", PATIENCE_S)
            content = everything_in(client, beset)
            assert found_in(content, names() | identifiers()) == set(), point
            assert content.count(handle) == 1, point
    assert len(beset.releases()) == 2 * len(points)
    beset.judge()
