"""A shard's part of a release: the steps of `core/plan.py` below the shard's region, among the people who live there."""

from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final, Mapping

import numpy as np

from shoal.core.cells.shard import Shard
from shoal.core.cells.tree import Tree
from shoal.core.draft import Decided, Draft
from shoal.core.errors import CoreError
from shoal.core.events.window import PRESENT
from shoal.core.fold import Folded, Window
from shoal.core.measure.loss import LossSums
from shoal.core.people import AWAY
from shoal.core.plan import decide
from shoal.core.policy.policy import Policy
from shoal.core.release import Members, Tally
from shoal.core.shards.lasting import LastingShard
from shoal.core.shards.moves import ShardWindow, Traveller
from shoal.core.state import ENGINE, Change, Meta, State

NOBODY_PUBLISHED: Final = 1 << 40  # the k of a shard whose region is not known yet


@dataclass(frozen=True)
class Part:
    """What a shard publishes in a release, and what the manifest says of it."""

    shard: Shard
    cells: tuple[bytes, ...]
    groups: tuple[bytes, ...]
    gone: tuple[bytes, ...]
    digest: bytes
    tally: Tally
    loss: LossSums
    max_breach: float
    is_full: bool = True


@dataclass(frozen=True)
class PartPlan:
    """A part, the change it makes to the shard's state and, private, who its rows are and whose cohorts stand behind
    them. In `change` the people who left are `departed`.
    """

    part: Part
    change: Change
    members: Members
    cohorts: Mapping[str, list[list[str]]] = field(repr=False)


def plan_part(
    state: State,
    window: ShardWindow,
    policy: Policy,
    number: int,
    shard: Shard,
    *,
    previous_policy: str | None = None,
) -> PartPlan:
    """The next part of a shard; raises CoreError if `number` is not the next one or the shard knows none of its people.

    In the release that makes the cuts, `state` is still that of a shard without a region and `shard` has one.
    """
    if number != state.meta.release + 1:
        raise CoreError(f"release {number} of shard {shard.number} cannot follow release {state.meta.release}")
    draft = ShardDraft(state, window, policy, number, shard)
    folded, decided = decide(draft, draft.model(), Window(None, window.deltas, window.externals))
    return draft.emit_part(folded, decided, previous_policy)


class ShardDraft(Draft):
    """A part being made."""

    def __init__(self, state: State, window: ShardWindow, policy: Policy, number: int, shard: Shard) -> None:
        super().__init__(state, policy if shard.box is not None else replace(policy, k=NOBODY_PUBLISHED), number)
        self._window, self._shard = window, shard
        self._travellers: dict[int, Traveller] = {}
        self._lost: set[int] = set()
        if self.tree.size == 1:  # it may be the release that makes the cuts
            self.tree = Tree(policy.attributes, shard.box)

    def model(self) -> LastingShard:
        """The steps between the fold and the bytes; `fold_window` tells it who came and who left."""
        return LastingShard(self, self._travellers, self._lost)

    def fold_window(self, window: Window) -> Folded:
        """Step 1: those who stay are folded, those who left are forgotten, and those who came are written down."""
        folded = super().fold_window(window)
        self._depart(folded)
        self._arrive(folded)
        return folded

    def _depart(self, folded: Folded) -> None:
        people = self.people
        rows = [row for row in people.rows_of(self._window.departures) if row is not None]
        if len(rows) < len(self._window.departures) or bool(np.any(people.status[rows] == AWAY)):
            raise CoreError(f"shard {self._shard.number} does not know everybody who leaves it")
        self._lost.update(row for row in people.rows_of(self._window.erased) if row is not None)
        people.leave(np.array(rows, dtype=np.int64))
        folded.departed.extend(rows)
        folded.touched.extend(rows)

    def _arrive(self, folded: Folded) -> None:
        people, arrivals = self.people, self._window.arrivals
        rows = people.rows_of(arrivals)
        back = [(row, arrivals[handle].person) for handle, row in zip(arrivals, rows, strict=True) if row is not None]
        if bool(np.any(people.status[[row for row, _ in back]] != AWAY)):
            raise CoreError(f"somebody comes to shard {self._shard.number} who is there already")
        people.put(back)
        new = [(handle, arrivals[handle].person) for handle, row in zip(arrivals, rows, strict=True) if row is None]
        people.extend(new)
        for handle, traveller in arrivals.items():
            row = people.row(handle)
            assert row is not None
            self._travellers[row] = traveller
            folded.touched.append(row)
            if traveller.person.status == PRESENT:
                folded.arrived.append(row)
            if traveller.is_erased:
                folded.erased.append(row)

    def emit_part(self, folded: Folded, decided: Decided, previous_policy: str | None) -> PartPlan:
        """Step 8: the bytes of the part, and the records it changes."""
        written = self.write(decided)
        digest = self.state.meta.policy if previous_policy is None else self.policy.digest
        meta = Meta(self.number, None, decided.next_group, decided.max_breach, ENGINE, digest)
        part = Part(
            self._shard,
            written.cells,
            written.groups,
            (),
            sha256().digest(),
            written.tally,
            written.loss,
            decided.max_breach,
        )
        change = self.change(meta, folded, decided, written, shard=self._shard)
        return PartPlan(part, change, self.members(decided), decided.cohorts)
