"""Sharded tables that look at every release they make: does a restart give the same, do marks follow people?"""

import random
from dataclasses import replace

from shoal.core.fold import Window
from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed
from shoal.core.shards.table import Table, TablePlan
from shoal.core.signatures.entries import BARRED, HELD, STARRED
from shoal.core.state import RECORDS, Change, State, WholeChange
from tests.support.engines.sharded import KEY, Ward


class Restarting(Ward):
    """Plans every release twice: with everything in memory, and with what was stored, read in any order."""

    def plan(self, window: Window, changed: Policy | None = None) -> TablePlan:
        draw = random.Random(self.table.meta.release)
        made, stored = super().plan(window, changed), self._reloaded(draw)
        deltas = {0: dict(draw.sample(list(window.deltas[0].items()), len(window.deltas[0])))}
        again = stored.plan(window._replace(deltas=deltas), made.meta.release, changed)
        assert again.manifest == made.manifest
        assert (again.cells, again.groups, again.cohorts) == (made.cells, made.groups, made.cohorts)
        for state, mine, part in zip(self._reloaded(draw).states, stored.states, again.parts, strict=True):
            written = self._written(state, part.change)
            mine.apply(part.change)
            for name in RECORDS:
                assert sorted(written.records(name)) == sorted(mine.records(name)), name
        return made

    @staticmethod
    def _written(state: State, change: Change) -> State:
        """What follows from the records of a change, as Redis has it; where labels are new, it has all of them."""
        if isinstance(change, WholeChange):
            after = change.after
            assert after is not None
            records = {name: getattr(change, name).items() for name in RECORDS}
            return State.load(after.policy, KEY, change.meta, Keyed, after.shard, **records)
        state.apply(replace(change, after=None))
        return state

    def _reloaded(self, draw: random.Random) -> Table:
        states = []
        for state in self.table.states:
            records = {name: list(state.records(name)) for name in RECORDS}
            shuffled = {name: draw.sample(found, len(found)) for name, found in records.items()}
            states.append(State.load(self.table.policy, KEY, state.meta, Keyed, state.shard, **shuffled))
        return Table(self.table.policy, states, self.table.cuts, self.table.meta)


class Marking(Ward):
    """Looks in every release whether marks follow people: nobody who has a value loses its marks by moving."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._before: dict[tuple[str, int], int] = {}

    def plan(self, window: Window, changed: Policy | None = None) -> TablePlan:
        after = self._marks(self.table)
        for one, marks in self._before.items():
            if marks & HELD and after.get(one, 0) & HELD:
                assert marks & (STARRED | BARRED) & ~after[one] == 0, "a mark was lost on the way"
        self._before = after
        return super().plan(window, changed)

    @staticmethod
    def _marks(table: Table) -> dict[tuple[str, int], int]:
        return {
            (person, value): marks
            for entries, people in ((state.entries, state.people) for state in table.states)
            for person, value, marks in zip(
                people.ids(entries.owner), entries.value.tolist(), entries.flags.tolist(), strict=True
            )
        }
