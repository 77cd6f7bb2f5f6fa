"""kill -9 of a worker right after, and inside, every step of a release with shards, as coordinator and as owner.

As in test_crash_points.py: the drills run beside each other, each on a table of its own on which everything is promised
at once. Afterwards the judge makes every release again in one process: a release is whole, or not there.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fault.drills import Drills, Stage, die_at
from tests.fault.scene import EVERYTHING, EVERYTHING_SIGNED

_AT_ONCE = 3
SHARDS = 3

# Those of the coordinator are passed once in a release, those of owners once for each shard, or more often. In the
# first release the cuts are made; most drills are in the second.
COORDINATOR = (
    "release.1:2", "release.2:2", "shards.2:2", "shards.5", "shards.5:2", "shards.6.open:2", "shards.6:2",
    "shards.8.open:2", "shards.8:2", "shards.10.part", "shards.10", "shards.10:2",
)  # fmt: skip
OWNER = (
    "shards.3.part:14", "shards.3:2", "shards.3:5", "shards.4.part:8", "shards.4:1", "shards.4:5", "shards.7.open:5",
    "shards.7.part:4", "shards.7:1", "shards.7:5", "shards.9.part:20", "shards.9:1", "shards.9:5",
)  # fmt: skip

# Alone: everything stands still until another worker is started. Beside: another worker takes over. Either: of two
# workers the one that is the coordinator dies; the other has shards of its own, and may die as coordinator in its turn.
DRILLS = [
    *((point, "alone") for point in (*COORDINATOR, *OWNER)),
    *((point, "beside") for point in ("shards.3:2", "shards.4:2", "shards.7.open:2", "shards.7:2", "shards.9:2")),
    *(
        (point, "either")
        for point in ("shards.2:2", "shards.5:2", "shards.6.open:2", "shards.6:2", "shards.8:2", "shards.10:2")
    ),
]
_NEVER = "never"  # no step has this name


@pytest.fixture(scope="module")
def drills(stage: Stage) -> Iterator[Drills]:
    def drill(point: str, company: str) -> None:
        place = DRILLS.index((point, company))
        kind = (EVERYTHING, EVERYTHING_SIGNED)[place % 2]
        deltas: dict[str, Any] = {"release": {"full_every": 3}} if place % 3 else {}
        with stage.scene(point, seed=place, **kind, scale={"shards": SHARDS}, **deltas) as scene:
            scene.fill(200)
            scene.pour(100)
            die_at(scene, point, {"alone": "", "beside": _NEVER, "either": point}[company])
            scene.pour(50)
            if company != "beside":
                scene.start()
            last = json.loads(scene.finish()[-1].manifest)
            assert all(shard["people"] for shard in last["shards"]), "a shard is empty"
            assert len(last["shards"]) == SHARDS, "there are no cuts"

    with stage.started(("point", "company"), drill, _AT_ONCE) as found:
        yield found


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("point", "company"), DRILLS)
def test_a_worker_killed_in_a_release_with_shards_leaves_it_whole_or_not_there(
    drills: Drills, point: str, company: str
) -> None:
    drills[point, company].result()
