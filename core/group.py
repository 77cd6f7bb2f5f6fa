"""Group formation: who is published with whom, so that nobody's budget is overspent (DESIGN, section 4 step 6).

A plain sweep. Units stand in the tree's depth-first order, shuffled within each cell. A group starts at the first unit
left and takes, from a bounded look-ahead, those that show none of its protected values yet, until it is as large as
its most demanding member needs. What cannot close that way is *stuck*, and is settled in this order, cheapest first:

1. join a neighbouring group that has room for it;
2. gather with other stuck units, down to the hard minimum of the promise instead of the strategy's target;
3. be published beside a neighbouring group with its protected values suppressed ("*" weighs nothing);
4. be withheld until a later release, where its cell can spare the row; otherwise stand in a group of "*" only.

Look-ahead and neighbourhood are bounded, so the cost is linear in the pool.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from core.ledger import Account, Ledger
from core.policy import Policy
from core.strategy import hard_minimum, required_ratio

LOOK_AHEAD = 128
NEIGHBOURS = 64


@dataclass(frozen=True, slots=True)
class Unit:
    """One person who needs a group."""

    cell: int
    values: tuple[int, ...]
    exposures: tuple[int, ...] = ()


@dataclass(slots=True)
class Formed:
    """A group: positions of its units, which of them show "*" for every protected value, and the largest breach."""

    members: list[int]
    starred: set[int]
    breach: float


@dataclass(slots=True)
class Formation:
    """What became of the pool."""

    groups: list[Formed]
    withheld: list[int]


@dataclass(slots=True)
class _Claim:
    """What a unit asks of its group: its protected values, and ratios beyond the base for values it has paid for."""

    protected: tuple[int, ...]
    accounts: Mapping[int, Account]
    target: dict[int, float]
    hard: dict[int, float]
    is_starred: bool


class _Draft:
    """A group being formed. `need` is the largest ratio any member asks for a value, beyond the base ratio of all."""

    __slots__ = ("base", "count", "is_hard", "members", "need", "people", "required", "starred")

    def __init__(self, base: float, is_hard: bool) -> None:
        self.base, self.is_hard = base, is_hard
        self.members: list[int] = []
        self.starred: set[int] = set()
        self.people = 0  # n(G): members less stars
        self.count: dict[int, int] = {}
        self.need: dict[int, float] = {}
        self.required = 0.0

    def required_with(self, claim: _Claim, is_starred: bool) -> float:
        """The size this group would need with one more unit; infinite where a member may not be exposed at all."""
        ratios = claim.hard if self.is_hard else claim.target
        required, count, need, base = self.required, self.count, self.need, self.base
        if not is_starred:
            for leaf in claim.protected:
                ratio = max(base, need.get(leaf, base), ratios.get(leaf, base))
                required = max(required, (count.get(leaf, 0) + 1) * ratio)
        if ratios:
            for leaf, times in count.items():
                if leaf in ratios:
                    required = max(required, times * ratios[leaf])
        return required

    def add(self, position: int, claim: _Claim, is_starred: bool) -> None:
        self.required = self.required_with(claim, is_starred)
        self.members.append(position)
        if is_starred:
            self.starred.add(position)
            self.people += 1 - len(claim.protected)
        else:
            self.people += 1
            for leaf in claim.protected:
                self.count[leaf] = self.count.get(leaf, 0) + 1
        for leaf, ratio in (claim.hard if self.is_hard else claim.target).items():
            if ratio > self.need.get(leaf, 0.0):
                self.need[leaf] = ratio

    def repeats(self, claim: _Claim) -> bool:
        return any(leaf in self.count for leaf in claim.protected)


def form_groups(units: Sequence[Unit], ledger: Ledger, policy: Policy, spare: Mapping[int, int]) -> Formation:
    """Group the pool. `units` stand in sweep order; `spare` says how many rows each cell can do without."""
    return _Sweep(units, ledger, policy).run(dict(spare))


class _Sweep:
    def __init__(self, units: Sequence[Unit], ledger: Ledger, policy: Policy) -> None:
        self._units, self._ledger, self._policy = units, ledger, policy
        self._bound = 1 / Fraction(policy.l)
        self._target_base = required_ratio(policy, 1.0, 0)
        self._hard_base = hard_minimum(policy.l, 1.0)
        self._claims = [self._claim(unit) for unit in units]
        self._groups: list[_Draft] = []
        self._starts: list[int] = []

    def run(self, spare: dict[int, int]) -> Formation:
        stuck = self._sweep(list(range(len(self._units))), is_hard=False)
        stuck = [position for position in stuck if not self._join(position, is_starred=False)]
        stuck = self._sweep(stuck, is_hard=True)
        stuck = [position for position in stuck if not self._join(position, is_starred=True)]
        withheld, hidden = [], _Draft(self._hard_base, is_hard=True)
        for position in stuck:
            cell = self._units[position].cell
            if spare.get(cell, 0) > 0:
                spare[cell] -= 1
                withheld.append(position)
            else:
                hidden.add(position, self._claims[position], is_starred=True)
        if hidden.members:
            self._keep(hidden)
        formed = [Formed(draft.members, draft.starred, self._largest_breach(draft)) for draft in self._groups]
        return Formation(formed, withheld)

    def _claim(self, unit: Unit) -> _Claim:
        protected = tuple(leaf for leaf in unit.values if leaf not in self._policy.sensitive.open)
        accounts = self._ledger.accounts(unit.exposures)
        target, hard = {}, {}
        for leaf, (survival, exposures) in accounts.items():
            ratio = required_ratio(self._policy, survival, exposures)
            if ratio > self._target_base:
                target[leaf] = ratio
            minimum = hard_minimum(self._policy.l, survival)
            if minimum > self._hard_base:
                hard[leaf] = minimum
        # a value its holder may not be linked to any more can only ever be shown as "*"
        is_starred = any(math.isinf(hard.get(leaf, 0.0)) for leaf in protected)
        return _Claim(protected, accounts, target, hard, is_starred)

    def _sweep(self, pending: list[int], is_hard: bool) -> list[int]:
        """Form groups from these positions in order; returns those that found none. Hard: close at the minimum."""
        base = self._hard_base if is_hard else self._target_base
        enough = self._target_base
        stuck: list[int] = []
        following = [*range(1, len(pending) + 1)]  # a linked list over `pending`, so that taking from it is O(1)
        head = 0
        while head < len(pending):
            draft = _Draft(base, is_hard)
            first = pending[head]
            draft.add(first, self._claims[first], self._claims[first].is_starred)
            taken = [head]
            before, here, seen = head, following[head], 0
            while here < len(pending) and seen < LOOK_AHEAD:
                if draft.people >= enough and draft.people >= draft.required:
                    break
                position = pending[here]
                claim = self._claims[position]
                seen += 1
                if draft.repeats(claim) or math.isinf(draft.required_with(claim, claim.is_starred)):
                    before, here = here, following[here]
                    continue
                draft.add(position, claim, claim.is_starred)
                taken.append(here)
                following[before] = here = following[here]
            is_large = is_hard or draft.people >= enough or not draft.count
            if is_large and self._is_closed(draft):
                self._keep(draft)
                head = following[head]
                continue
            stuck.append(first)
            head = self._put_back(following, head, taken[1:])
        return stuck

    @staticmethod
    def _put_back(following: list[int], head: int, taken: list[int]) -> int:
        """Undo the unlinking of `taken` (ascending) after `head`, and drop the head itself; returns the new head."""
        here = head
        for index in taken:
            while following[here] < index:
                here = following[here]
            following[index], following[here] = following[here], index
        return following[head]

    def _join(self, position: int, is_starred: bool) -> bool:
        """Add a unit to the nearest group of the sweep that can take it as it is; false if none can."""
        claim = self._claims[position]
        is_starred = is_starred or claim.is_starred
        middle = bisect_left(self._starts, position)
        near = range(max(0, middle - NEIGHBOURS // 2), min(len(self._groups), middle + NEIGHBOURS // 2))
        for index in sorted(near, key=lambda index: abs(self._starts[index] - position)):
            draft = self._groups[index]
            people = draft.people + (1 - len(claim.protected) if is_starred else 1)
            if people < 1 or draft.required_with(claim, is_starred) > people:
                continue
            trial = _Draft(draft.base, draft.is_hard)
            trial.members, trial.starred = [*draft.members], set(draft.starred)
            trial.people, trial.required = draft.people, draft.required
            trial.count, trial.need = dict(draft.count), dict(draft.need)
            trial.add(position, claim, is_starred)
            if self._is_closed(trial):
                self._groups[index] = trial
                return True
        return False

    def _keep(self, draft: _Draft) -> None:
        at = bisect_left(self._starts, draft.members[0])
        self._starts.insert(at, draft.members[0])
        self._groups.insert(at, draft)

    def _largest_breach(self, draft: _Draft) -> float:
        """The largest breach(o, s) of anyone in a group once it is charged; never over the bound, which was checked."""
        if not draft.count:
            return 0.0
        shares = [(leaf, times / draft.people) for leaf, times in draft.count.items()]
        largest = max(share for _, share in shares)
        for position in draft.members:
            accounts = self._claims[position].accounts
            if accounts:
                for leaf, share in shares:
                    account = accounts.get(leaf)
                    if account:
                        largest = max(largest, 1.0 - account.survival * (1.0 - share))
        return min(largest, float(self._bound))

    def _is_closed(self, draft: _Draft) -> bool:
        """Whether every requirement holds, the promise itself checked exactly for every member."""
        if not draft.count:
            return True
        if draft.people < 1 or draft.required > draft.people * (1 + 1e-12):
            return False
        shares = {leaf: Fraction(times, draft.people) for leaf, times in draft.count.items()}
        if max(shares.values()) > self._bound:
            return False
        for position in draft.members:
            accounts = self._claims[position].accounts
            if not accounts:
                continue
            exposures = self._units[position].exposures
            for leaf, share in shares.items():
                account = accounts.get(leaf)
                if account and not self._ledger.can_afford(exposures, leaf, account.survival, share):
                    return False
        return True
