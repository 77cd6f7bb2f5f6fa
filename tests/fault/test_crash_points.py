"""kill -9 of the worker right after every numbered step of ingest and release.

The drills (drills.py) run four at a time. Each has a table of its own, on which everything is promised at once:
permanent values, guards, other publishers beside it, sampling. By turns the table has cliques or signatures of
permanent values; some points are tried on a redrawn table, too. Afterwards the topics, written to a file, must give the
same bytes in a replay.
"""

from collections.abc import Iterator

import pytest

from tests.fault.drills import Drills, Stage, die_at
from tests.fault.scene import KINDS
from tests.integration.replayed import assert_a_replay_makes_the_same

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


@pytest.fixture(scope="module")
def drills(stage: Stage) -> Iterator[Drills]:
    def drill(point: str, kind: str) -> None:
        with stage.scene(point, seed=POINTS.index(point), **KINDS[kind]) as scene:
            scene.pour(150)
            die_at(scene, point)
            scene.pour(50)
            scene.start()
            scene.finish()
            assert_a_replay_makes_the_same(scene)

    with stage.started(("point", "kind"), drill, _AT_ONCE) as found:
        yield found


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("point", "kind"), DRILLS)
def test_a_worker_killed_right_after_a_step_leaves_nothing_undone_and_nothing_done_twice(
    drills: Drills, point: str, kind: str
) -> None:
    drills[point, kind].result()
