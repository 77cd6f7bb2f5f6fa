"""A shard's part of a release: the steps of `core/plan.py` below the shard's region, with the people who live there."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np

from shoal.core.cells.shard import Shard
from shoal.core.cells.tree import Tree
from shoal.core.draft import Decided, Draft
from shoal.core.errors import CoreError
from shoal.core.events.window import PRESENT
from shoal.core.fold import Folded, Window
from shoal.core.measure.loss import LossSums
from shoal.core.person import AWAY
from shoal.core.plan import decide
from shoal.core.policy.policy import Policy
from shoal.core.release import Members, Part, Tally
from shoal.core.shards.lasting import LastingShard
from shoal.core.shards.moves import ShardWindow, Traveller
from shoal.core.state import ENGINE, Change, Meta, State

NOBODY_PUBLISHED: Final = 1 << 40  # the k of a shard whose region is not known yet


class Summary(NamedTuple):
    """What the manifest has to know of a part: what it says of it, counts and sums to be added up, the largest breach.

    `max_breach` is over everybody who was ever published in the shard.
    """

    part: Part
    tally: Tally
    losses: LossSums
    max_breach: float

    def pack(self) -> tuple[Any, ...]:
        """Plain tuples, numbers and text, as msgpack writes them."""
        return tuple(self.part), astuple(self.tally), tuple(self.losses), self.max_breach

    @classmethod
    def unpack(cls, packed: Sequence[Any]) -> "Summary":
        """The inverse."""
        part, tally, losses, max_breach = packed
        return cls(Part(*part), Tally(*tally), LossSums(*losses), max_breach)


@dataclass(frozen=True)
class PartPlan:
    """What a shard publishes in a release, the change this makes to its state and, private, who its rows are and whose
    cohorts stand behind them. In `change` the people who left are `departed`.
    """

    cells: tuple[bytes, ...]
    groups: tuple[bytes, ...]
    gone: tuple[bytes, ...]
    summary: Summary
    change: Change
    members: Members
    cohorts: Mapping[str, list[list[str]]] = field(repr=False)

    @property
    def records(self) -> tuple[bytes, ...]:
        """All records in the order they are published in."""
        return self.cells + self.groups + self.gone


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

    def emit_part(self, folded: Folded, decided: Decided, previous_policy: str | None) -> PartPlan:
        """Step 8: the bytes of the part, and the records it changes."""
        written = self.write(decided)
        digest = self.state.meta.policy if previous_policy is None else self.policy.digest
        meta = Meta(self.number, None, decided.next_group, decided.max_breach, ENGINE, digest)
        assert written.part is not None
        return PartPlan(
            written.cells,
            written.groups,
            written.gone,
            Summary(written.part, written.tally, written.losses, decided.max_breach),
            self.change(meta, folded, decided, written),
            self.members(decided),
            decided.cohorts,
        )
