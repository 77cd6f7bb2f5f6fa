"""A rebuild's shards in files beside the same table in memory: the same releases, and one shard at a time is held."""

import gc
import random
import weakref
from pathlib import Path
from typing import Any

import pytest

from shoal.core.overlap.external import External, ExternalGroup, parse_external
from shoal.core.plan import Window
from shoal.core.policy.policy import Policy
from shoal.core.randomness import KeyedByHandle
from shoal.core.shards.part import plan_part
from shoal.core.shards.table import Table
from shoal.core.state import RECORDS, State
from shoal.streams.files.shards import part_job
from shoal.streams.store.records import pack
from shoal.streams.store.shard_records import pack_cuts
from shoal.streams.store.state_digest import StateDigest, proofs_of
from shoal.streams.worker.foreign import foreign_handles
from shoal.streams.worker.remaking import ManyShards, Shelf, begin_anew
from tests.support.histories.changing import draw_changing, draw_policies

KEY = b"a secret of sixteen bytes"
PARTITIONS = 3


class Twice:
    """Makes every release of a history in memory and in files, from events that came by several partitions."""

    def __init__(self, folder: Path, seed: int, shards: int) -> None:
        self._draw = random.Random(seed)
        self.policies = draw_policies(self._draw, shards)
        before, self.after = self.policies
        self.table = Table.empty(before, KEY, KeyedByHandle)
        self.files = begin_anew(before, KEY, folder)
        self._intakes = self.files.intakes(before, PARTITIONS)
        self._externals: list[ExternalGroup] = []
        self.misrouted = self.moves = 0

    def live(self) -> "Twice":
        for event in draw_changing(self._draw, self.policies):
            if event["op"] in ("release", "change"):
                self.release(self.after if event["op"] == "change" else None)
            elif event["op"] == "external":
                read = parse_external(event, self.table.policy)
                assert isinstance(read, External)
                self._externals += read.groups
            else:
                self._take(event)
        return self

    def _take(self, event: dict[str, Any]) -> None:
        """Some events go elsewhere: a few by mistake, and inserts to two partitions at once."""
        home = sum(event["id"].encode()) % PARTITIONS
        there = {home, self._draw.randrange(PARTITIONS)} if self._draw.random() < 0.2 else {home}
        for number in there:
            self._intakes[number].take(event, self._draw.randrange(1 << 30))

    def release(self, changed: Policy | None) -> None:
        table, number = self.table, self.table.meta.release + 1
        deltas = {place: intake.cut() for place, intake in enumerate(self._intakes)}
        window, self._externals = Window(None, deltas, self._externals), []
        known = {handle: one.person.home for handle, one in table._residents(None).items()}
        foreign = foreign_handles(known, deltas)
        made = table.plan(window, number, changed)
        copied = {place: dict(here) for place, here in deltas.items()}
        again = self.files.make(window._replace(deltas=copied), table.policy, changed, number)
        assert again.manifest == made.manifest
        assert again.misrouted == made.misrouted
        assert {place: set(found) for place, found in again.foreign.items()} == {
            place: set(found) for place, found in foreign.items()
        }
        table.apply(made)
        digests = [StateDigest.of_state(state).value for state in table.states]
        states = [pack(tuple(state.meta)) for state in table.states]
        assert again.proofs == proofs_of(table.states[0].keyed, number, digests, states, pack_cuts(made.cuts))
        again.apply()
        assert self.files.meta == table.meta
        assert self.files.people == sum(len(state.people.here()) for state in table.states)
        self.misrouted += len(made.misrouted)
        self.moves += sum(len(part.change.departed) for part in made.parts)
        for place, intake in enumerate(self._intakes):
            for person in again.foreign.get(place, ()):
                intake.forget(person)
        if changed is not None:
            self._intakes = self.files.intakes(changed, PARTITIONS)


@pytest.mark.parametrize(("seed", "shards"), [(seed, shards) for seed in range(6) for shards in (2, 5)])
def test_shards_in_files_make_what_shards_in_memory_make(tmp_path: Path, seed: int, shards: int) -> None:
    twice = Twice(tmp_path, seed, shards).live()
    assert twice.misrouted > 5
    assert twice.moves > 5
    assert len(list(tmp_path.iterdir())) == shards, "files of earlier releases are gone"


def test_a_snapshot_s_shards_go_on_from_files(tmp_path: Path) -> None:
    twice = Twice(tmp_path / "one", 2, 2)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    twice.live()
    table, shelf = twice.table, Shelf(KEY, tmp_path / "two")
    records = [{name: list(state.records(name)) for name in RECORDS} for state in table.states]
    loaded = [
        shelf.keep(State.load(table.policy, state.keyed, state.meta, KeyedByHandle, state.shard, **mine))
        for state, mine in zip(table.states, records, strict=True)
    ]
    twice.files = shelf.go_on_with(Table(table.policy, loaded, table.cuts, table.meta))
    assert isinstance(twice.files, ManyShards)
    twice._intakes = twice.files.intakes(table.policy, PARTITIONS)
    for person in range(40):
        twice._take({"op": "erase", "id": f"p{person}"})
    twice.release(None)


def count_held(patch: pytest.MonkeyPatch) -> list[int]:
    """How many states that were read to be planned are held when another one is read."""
    alive: weakref.WeakSet[State] = weakref.WeakSet()
    held: list[int] = []
    load = part_job._load

    def counting(*arguments: Any) -> State:
        gc.collect()
        held.append(len(alive))
        state = load(*arguments)
        alive.add(state)
        return state

    patch.setattr(part_job, "_load", counting)
    return held


def test_one_shard_is_in_memory_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = count_held(monkeypatch)
    releases = Twice(tmp_path, 2, 5).live().table.meta.release
    assert held == [0] * 5 * releases


def test_a_rebuild_that_holds_every_shard_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, hoard = count_held(monkeypatch), list[Any]()

    def hoarding(state: State, *arguments: Any) -> Any:
        hoard.append(state)
        return plan_part(state, *arguments)

    monkeypatch.setattr("shoal.streams.files.shards.part_job.plan_part", hoarding)
    Twice(tmp_path, 2, 5).live()
    assert max(held) >= 4
