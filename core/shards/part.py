"""A shard's part of a release: the steps of `core/plan.py` below the shard's region, with the people who live there."""

from dataclasses import replace
from typing import Final

import numpy as np

from shoal.core.cells.shard import Shard
from shoal.core.cells.tree import Tree
from shoal.core.change import interim, translated
from shoal.core.draft import Draft
from shoal.core.errors import CoreError
from shoal.core.events.window import PRESENT
from shoal.core.fold import Folded, Window
from shoal.core.parts import PartPlan
from shoal.core.person import AWAY
from shoal.core.plan import decide, plan_only_part
from shoal.core.policy.policy import Policy
from shoal.core.shards.lasting import LastingShard
from shoal.core.shards.moves import ShardWindow, Traveller
from shoal.core.state import State

NOBODY_PUBLISHED: Final = 1 << 40  # the k of a shard whose region is not known yet


def plan_part(
    state: State, window: ShardWindow, policy: Policy, number: int, shard: Shard | None, changed: Policy | None = None
) -> PartPlan:
    """The next part of a shard, with which the policy `changed` takes over, unless it is None. Raises CoreError if
    `number` is not the next one, if the shard knows none of its people, or if `changed` may not follow.

    In the release that makes the cuts, `state` is still that of a shard without a region and `shard` has one. Its
    region is in the leaves of `policy`, the one before. `shard` is None in a table with one.
    """
    if shard is None:
        return plan_only_part(state, Window(None, window.deltas, window.externals), policy, number, changed)
    if number != state.meta.release + 1:
        raise CoreError(f"release {number} of shard {shard.number} cannot follow release {state.meta.release}")
    during = policy if changed is None else interim(policy, changed)
    draft = ShardDraft(state, window, during, number, shard)
    folded, decided = decide(draft, draft.model(), Window(None, window.deltas, window.externals))
    if changed is None:
        return draft.emit(folded, decided, state.meta.policy)
    made = draft.emit(folded, decided, changed.digest)
    return replace(made, change=translated(made.change, changed))


class ShardDraft(Draft):
    """A part being made."""

    def __init__(self, state: State, window: ShardWindow, policy: Policy, number: int, shard: Shard) -> None:
        policy = policy if shard.box is not None else replace(policy, k=NOBODY_PUBLISHED)
        super().__init__(state, policy, number, shard)
        self._window = window
        self._travellers: dict[int, Traveller] = {}
        if self.tree.size == 1:  # it may be the release that makes the cuts
            self.tree = Tree(policy.attributes, shard.box)

    def model(self) -> LastingShard:
        """The steps between the fold and the bytes; `fold_window` tells it who came and who left."""
        return LastingShard(self, self._travellers, self._window.lost)

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
            raise CoreError(f"shard {self._shard_number} does not know everybody who leaves it")
        people.leave(np.array(rows, dtype=np.int64))
        folded.departed.extend(rows)
        folded.touched.extend(rows)

    def _arrive(self, folded: Folded) -> None:
        people, arrivals = self.people, self._window.arrivals
        rows = people.rows_of(arrivals)
        back = [(row, arrivals[handle].person) for handle, row in zip(arrivals, rows, strict=True) if row is not None]
        if bool(np.any(people.status[[row for row, _ in back]] != AWAY)):
            raise CoreError(f"somebody moves to shard {self._shard_number} who is there already")
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
