"""kill -9 of a worker right after, and inside, every numbered step of ingest and of a release, with one shard and four.

The drills (drills.py) run beside each other. Each has a table of its own, on which everything is promised at once:
permanent values, guards, other publishers beside it, sampling. By turns the table has cliques or signatures of
permanent values, and with shards deltas or whole releases; some points are tried on a redrawn table, too. Afterwards
the judge makes every release again in one process, and with one shard a replay of the topics gives the same bytes.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.fault.drills import Drills, Stage, die_at
from tests.fault.scene import KINDS
from tests.integration.replayed import assert_a_replay_makes_the_same

_AT_ONCE = 4
_NEVER = "never"  # no step has this name


class Drill(NamedTuple):
    """Where a worker dies, of a table with how many shards, and who is there beside it.

    Alone: everything stands still until another worker is started. Beside: another worker takes over. Either: of two
    workers the one that is the coordinator dies; the other has shards of its own, and may die as coordinator in its
    turn.
    """

    point: str
    shards: int
    company: str = "alone"
    kind: str = ""


# At a later passage than the first where there is one, so that something is there already that could be lost.
INGEST = (
    "ingest.1", "ingest.1:3", "ingest.2:3", "ingest.3", "ingest.3:3", "ingest.4.open", "ingest.4", "ingest.5",
)  # fmt: skip
# Steps of the coordinator are passed once in a release, those of owners once for each shard, or more often. With shards
# the cuts are made in the first release; most drills are in the second.
COORDINATOR = (
    "release.1:2",
    "release.2:2",
    "release.5",
    "release.5:2",
    "release.8.open:2",
    "release.8:2",
    "release.10:2",
)
ONLY_OWNER = ("release.4.part:2", "release.4:2", "release.9.part:2", "release.9:2")
WITH_SHARDS = ("release.6.open:2", "release.6:2", "release.10.part", "release.10")
OWNERS = (
    "release.3.part:18", "release.3:2", "release.3:6", "release.4.part:10", "release.4:1", "release.4:6",
    "release.7.open:6", "release.7.part:5", "release.7:1", "release.7:6", "release.9.part:26", "release.9:1",
    "release.9:6",
)  # fmt: skip

POINTS = (*INGEST, *COORDINATOR, *ONLY_OWNER)  # of a table with one shard
_KIND = ("cliques", "signed")
DRILLS = [
    *(Drill(point, 1, kind=_KIND[at % 2]) for at, point in enumerate(POINTS)),
    *(
        Drill(point, 1, kind="redrawn")
        for point in ("ingest.3:3", "release.4.part:2", "release.5:2", "release.9.part:2")
    ),
    *(Drill(point, 4, kind=_KIND[at % 2]) for at, point in enumerate((*COORDINATOR, *WITH_SHARDS, *OWNERS))),
    *(
        Drill(point, 4, "beside", "cliques")
        for point in ("release.3:2", "release.4:2", "release.7.open:2", "release.7:2", "release.9:2")
    ),
    *(
        Drill(point, 4, "either", "signed")
        for point in ("release.2:2", "release.5:2", "release.6.open:2", "release.6:2", "release.8:2", "release.10:2")
    ),
    *(Drill(point, 1, "either", "cliques") for point in ("release.4:2", "release.5:2", "release.9.part:2")),
]


@pytest.fixture(scope="module")
def drills(stage: Stage) -> Iterator[Drills]:
    def drill(*fields: Any) -> None:
        one = Drill(*fields)
        place = DRILLS.index(one)
        changes: dict[str, Any] = {**KINDS[one.kind]}
        if one.shards > 1:
            changes |= {"scale": {"shards": one.shards}, **({"release": {"full_every": 3}} if place % 3 else {})}
        with stage.scene(one.point, seed=place, **changes) as scene:
            if one.shards > 1:
                scene.fill(260)
            scene.pour(150)
            die_at(scene, one.point, {"alone": "", "beside": _NEVER, "either": one.point}[one.company])
            scene.pour(50)
            if one.company != "beside":
                scene.start()
            last = json.loads(scene.finish()[-1].manifest)
            if one.shards > 1:
                assert [bool(shard["people"]) for shard in last["shards"]] == [True] * one.shards, "a shard is empty"
            else:
                assert_a_replay_makes_the_same(scene)

    with stage.started(Drill._fields, drill, _AT_ONCE) as found:
        yield found


@pytest.mark.timeout(900)
@pytest.mark.parametrize(Drill._fields, DRILLS)
def test_a_worker_killed_right_after_a_step_leaves_nothing_undone_and_nothing_done_twice(
    drills: Drills, point: str, shards: int, company: str, kind: str
) -> None:
    drills[point, shards, company, kind].result()
