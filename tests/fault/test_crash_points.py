"""kill -9 of the worker right after every numbered step of ingest and release.

The drills run four at a time beside each other: most of a drill is waiting for a process to start, or for Kafka to
notice that one is gone. Each has a table of its own, on which everything is promised at once: permanent values, guards,
other publishers beside it, sampling. By turns the table has cliques or signatures of permanent values; some points are
tried on a redrawn table, too. Afterwards the topics, written to a file, must give the same bytes in a replay.
"""

import secrets
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.fault.scene import KINDS, PATIENCE_S, Scene
from tests.integration.replayed import assert_a_replay_makes_the_same
from tests.support.services.table import await_that

_AT_ONCE = 4

# At a later passage than the first where there is one, so that something is there already that could be lost. Those of
# a release are passed once in each release.
POINTS = (
    "ingest.1", "ingest.1:3", "ingest.2:3", "ingest.3", "ingest.3:3", "ingest.4.open", "ingest.4", "ingest.5",
    "release.1:2", "release.2:2", "release.3:2", "release.4:2", "release.5.part:2", "release.5:2",
    "release.6", "release.6:2", "release.7.open:2", "release.7:2", "release.8:2", "release.9.part:2", "release.9:2",
)  # fmt: skip

DRILLS = [
    *((point, ("cliques", "signed")[place % 2]) for place, point in enumerate(POINTS)),
    *((point, "redrawn") for point in ("ingest.3:3", "release.5.part:2", "release.6:2", "release.9.part:2")),
]
Drill = tuple[str, str]


@pytest.fixture(scope="module")
def drills(
    request: pytest.FixtureRequest, kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[Drill, "Future[None]"]]:
    items: list[Any] = request.session.items
    wanted = [(item.callspec.params["point"], item.callspec.params["kind"]) for item in items if _is_drill(item)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        folder = tmp_path_factory.mktemp("drills")
        started = {drill: pool.submit(_drill, kafka, redis_url, folder, *drill) for drill in wanted}
        yield started
        for future in started.values():
            future.cancel()


def _is_drill(item: Any) -> bool:
    return item.path == Path(__file__) and hasattr(item, "callspec")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("point", "kind"), DRILLS)
def test_a_worker_killed_right_after_a_step_leaves_nothing_undone_and_nothing_done_twice(
    drills: Mapping[Drill, "Future[None]"], point: str, kind: str
) -> None:
    drills[point, kind].result()


def _drill(kafka: str, redis_url: str, folder: Path, point: str, kind: str) -> None:
    name = f"{point.replace(':', '-')}-{secrets.token_hex(4)}"
    scene = Scene(kafka, redis_url, folder, name, seed=POINTS.index(point), **KINDS[kind])
    try:
        scene.pour(150)
        scene.ask()
        dying = scene.start(CRASH_AT=point)
        await_that(lambda: dying.process.poll() is not None or "release.applied" in dying.log, PATIENCE_S, dying._log)
        scene.pour(100)
        scene.ask()
        assert scene.await_exit(dying) == -9, dying.log
        scene.pour(50)
        scene.start()
        scene.finish()
        assert_a_replay_makes_the_same(scene)
    finally:
        scene.close()
