"""A sharded table in one process: all its shards in memory, planned one after the other.

It does what the service does with many workers and `shoal replay` with files: desk, parts, manifest. Forecasts use it,
and tests compare the other two with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shoal.core.cells.shard import Shard
from shoal.core.change import interim
from shoal.core.conclude import conclude
from shoal.core.cuts import Cuts, Sample, people_needed
from shoal.core.errors import CoreError
from shoal.core.fold import Window
from shoal.core.parts import PartPlan
from shoal.core.person import Values
from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed
from shoal.core.shards.desk import FIRST, Resident, gather, present
from shoal.core.shards.moves import ShardWindow
from shoal.core.shards.part import plan_part
from shoal.core.state import Meta, State

__all__ = ["Table", "TablePlan", "join_cohorts", "people_needed"]


@dataclass(frozen=True)
class TablePlan:
    """A release of a sharded table and what becomes of it: its parts in the order of shards, and the manifest."""

    parts: tuple[PartPlan, ...]
    manifest: bytes
    cuts: Cuts | None
    meta: Meta
    misrouted: tuple[tuple[int, int], ...]
    policy: Policy
    """The one that holds from then on; `cuts` are in its leaves."""

    @property
    def cells(self) -> tuple[bytes, ...]:
        return tuple(record for part in self.parts for record in part.cells)

    @property
    def groups(self) -> tuple[bytes, ...]:
        return tuple(record for part in self.parts for record in part.groups)

    @property
    def gone(self) -> tuple[bytes, ...]:
        return tuple(record for part in self.parts for record in part.gone)

    @property
    def cohorts(self) -> dict[str, list[list[str]]]:
        """The cohorts of all shards, cohort by cohort."""
        return join_cohorts([part.cohorts for part in self.parts])


def join_cohorts(parts: Sequence[Mapping[str, list[list[str]]]]) -> dict[str, list[list[str]]]:
    """The cohorts of all shards, cohort by cohort."""
    found: dict[str, list[list[str]]] = {}
    for part in parts:
        for value, cohorts in part.items():
            known = found.setdefault(value, [[] for _ in cohorts])
            for mine, theirs in zip(known, cohorts, strict=True):
                mine.extend(theirs)
    return found


class Table:
    """The shards of a table between two releases. `meta` is of the series as a whole."""

    def __init__(self, policy: Policy, states: Sequence[State], cuts: Cuts | None, meta: Meta) -> None:
        self.policy, self.states, self.cuts, self.meta = policy, list(states), cuts, meta

    @classmethod
    def empty(cls, policy: Policy, key: bytes, keyed: type[Keyed] = Keyed) -> "Table":
        made = keyed(key, policy.table)
        states = [State.empty(policy, made, keyed, Shard(shard, None)) for shard in range(policy.shards)]
        return cls(policy, states, None, states[FIRST].meta)

    def roster(self) -> dict[str, int]:
        """Everyone's status by id, as `Intake` wants it."""
        return {person: status for state in self.states for person, status in state.people.roster().items()}

    def holdings(self) -> dict[str, Values]:
        """The permanent values of their holders, by id, as `Intake` wants them."""
        return {person: held for state in self.states for person, held in state.people.holdings().items()}

    def plan(self, window: Window, number: int, changed: Policy | None = None) -> TablePlan:
        """The next release, with which the policy `changed` takes over, unless it is None. Raises CoreError if `number`
        is not the next one, or the policy may not follow.
        """
        if number != self.meta.release + 1:
            raise CoreError(f"release {number} cannot follow release {self.meta.release}")
        policy = self.policy if changed is None else interim(self.policy, changed)
        cuts = self.cuts
        about = {handle for here in window.deltas.values() for handle in here}
        residents = self._residents(None if cuts is None else about)
        if cuts is None:
            sample = Sample(policy, self.states[FIRST].keyed)
            sample.add(dict(present(policy, number, residents, window.deltas)).items())
            cuts = sample.cuts()
        gathered = gather(policy, cuts, number, residents, window.deltas, self)
        parts = []
        for shard, state in enumerate(self.states):
            told = gathered.windows.get(shard, ShardWindow())._replace(externals=window.externals)
            where = Shard(shard, None) if cuts is None else cuts.shard(shard)
            parts.append(plan_part(state, told, self.policy, number, where, changed))
        made = conclude(self.policy, changed, self.meta, window.at, [part.summary for part in parts], cuts)
        return TablePlan(tuple(parts), made.manifest, made.cuts, made.meta, gathered.misrouted, made.policy)

    def apply(self, made: TablePlan) -> None:
        """Take over a sealed release, in place."""
        for state, part in zip(self.states, made.parts, strict=True):
            state.apply(part.change)
        self.policy, self.cuts, self.meta = made.policy, made.cuts, made.meta

    # -- what the desk asks ---------------------------------------------------------------------------------------

    def values_of(self, shard: int, signature: int) -> tuple[int, ...]:
        """The values of one of a shard's signatures."""
        return self.states[shard].signatures.sets[signature]

    def bound(self, shard: int, handle: str) -> tuple[int, ...]:
        """The permanent values for which somebody is or was in a clique."""
        bonds = self.states[shard].bonds.bonds.values()
        return tuple(sorted({bond.value for bond in bonds if handle in bond.owners}))

    def _residents(self, asked: set[str] | None) -> dict[str, Resident]:
        """The records of these people, or of everybody."""
        found: dict[str, Resident] = {}
        for shard, state in enumerate(self.states):
            rows = state.people.here()
            if asked is not None:
                known = [row for row in state.people.rows_of(asked) if row is not None]
                rows = np.intersect1d(rows, np.array(known, dtype=np.int64))
            found |= {handle: Resident(shard, person) for handle, person in state.persons(rows)}
        return found

    def check_invariants(self) -> None:
        """Everybody is in the shard that their quasi-identifiers say, and in no other."""
        met: set[str] = set()
        for shard, state in enumerate(self.states):
            state.check_invariants()
            rows = state.people.here()
            ids = set(state.people.ids(rows))
            assert not met & ids
            met |= ids
            if self.cuts is not None and len(rows):
                homes = self.cuts.shard_of([column[rows] for column in state.people.columns])
                assert bool(np.all(homes == shard))
