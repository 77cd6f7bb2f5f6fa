"""The sweep: groups formed along the tree's order, one unit after the other (steps 1 and 4 of `formation.py`)."""

import math
from dataclasses import dataclass, field

from shoal.core.groups.grouping import Grouping
from shoal.core.groups.promises import Promises
from shoal.core.groups.requirement import Requirement
from shoal.core.groups.tuning import LARGEST_DRAFT, LEAST_AHEAD, LOOK_AHEAD, ROUNDING
from shoal.core.policy.policy import Policy


@dataclass
class _Draft:
    """A group being formed; `required` is the size its members ask for, `people` is n(G)."""

    members: list[int] = field(default_factory=list)
    shown: dict[int, int] = field(default_factory=dict)  # leaf -> count, while nothing is raised
    people: int = 0
    required: float = 0.0
    ratio: dict[int, float] = field(default_factory=dict)  # leaf -> the largest ratio beyond the base
    guards: list[tuple[int, int, float]] = field(default_factory=list)  # leaves [first, last) and their ratio
    has_unguarded: bool = False

    def add(self, unit: int, requirement: Requirement, required: float) -> None:
        """Take a unit in, with which the group needs to be of the size `required`."""
        self.members.append(unit)
        self.required = required
        self.people += 1 - requirement.aside
        self.has_unguarded = self.has_unguarded or not requirement.is_guarded
        for leaf in requirement.shown:
            self.shown[leaf] = self.shown.get(leaf, 0) + 1
        for leaf, ratio in requirement.ratio.items():
            self.ratio[leaf] = max(ratio, self.ratio.get(leaf, 0.0))
        self.guards.extend(requirement.guards)


class Sweep:
    """Forms groups from units that have none."""

    def __init__(self, promises: Promises, policy: Policy, grouping: Grouping) -> None:
        self._promises, self._grouping, self._open = promises, grouping, policy.sensitive.open

    def run(self, pending: list[int], is_hard: bool) -> list[int]:
        """Form groups from these units in order; returns those that found none. Hard: close at the minimum."""
        requirements = self._promises.requirements
        requirement_of = requirements.hard if is_hard else requirements.target
        enough = self._promises.target_base
        left: list[int] = []
        following = [*range(1, len(pending) + 1)]  # a linked list over `pending`, so that taking from it is O(1)
        head, ahead = 0, LOOK_AHEAD
        while head < len(pending):
            draft = _Draft()
            first = requirement_of(pending[head])
            draft.add(pending[head], first, self._required_with(draft, first))
            taken = [head]
            before, here, seen = head, following[head], 0
            while here < len(pending) and seen < ahead and not math.isinf(draft.required):
                if draft.people >= enough and draft.people >= draft.required:
                    break
                requirement = requirement_of(pending[here])
                required = self._required_with(draft, requirement)
                seen += 1
                if required > max(draft.required, requirement.alone, LARGEST_DRAFT * enough):
                    before, here = here, following[here]
                    continue
                draft.add(pending[here], requirement, required)
                taken.append(here)
                following[before] = here = following[here]
            is_large = is_hard or draft.people >= enough or not draft.required
            if is_large and draft.required <= draft.people * (1 + ROUNDING) and self._form(draft.members):
                head, ahead = following[head], LOOK_AHEAD
                continue
            ahead = max(LEAST_AHEAD, ahead // 2)
            left.append(pending[head])
            head = _put_back(following, head, taken[1:])
        return left

    def _form(self, members: list[int]) -> bool:
        """Make a group if it keeps every promise, exactly. Values that can only be "*" are shown as "*"."""
        starred = {unit: self._promises.requirements.target(unit).starred for unit in members}
        if self._promises.wrong(members, starred) is not None:
            return False
        self._grouping.form(members, starred)
        return True

    def _required_with(self, draft: _Draft, requirement: Requirement) -> float:
        """The size a group would need with one more unit; infinite where a member may not be exposed at all."""
        required, shown, ratio = draft.required, draft.shown, draft.ratio
        base = requirement.base
        has_unguarded = draft.has_unguarded or not requirement.is_guarded
        for leaf in requirement.shown:
            if has_unguarded and leaf not in self._open:
                most = max(base, ratio.get(leaf, base), requirement.ratio.get(leaf, base))
                required = max(required, (shown.get(leaf, 0) + 1) * most)
            for first, last, asked in draft.guards:
                if first <= leaf < last:
                    weight = sum(count for other, count in shown.items() if first <= other < last)
                    weight += sum(first <= other < last for other in requirement.shown)
                    required = max(required, _times(asked, weight))
        if not requirement.is_guarded and not draft.has_unguarded:
            counts = (count for leaf, count in shown.items() if leaf not in self._open)
            required = max(required, base * max(counts, default=0))
        if requirement.ratio:
            for leaf, count in shown.items():
                if leaf in requirement.ratio:
                    required = max(required, _times(requirement.ratio[leaf], count))
        for first, last, asked in requirement.guards:
            weight = sum(count for leaf, count in shown.items() if first <= leaf < last)
            weight += sum(first <= leaf < last for leaf in requirement.shown)
            required = max(required, _times(asked, weight))
        return required


def _times(ratio: float, weight: float) -> float:
    """A ratio times a weight, where a weight of 0 asks for nothing, even of an infinite ratio."""
    return ratio * weight if weight else 0.0


def _put_back(following: list[int], head: int, taken: list[int]) -> int:
    """Undo the unlinking of `taken` (ascending) after `head`, and drop the head itself; returns the new head."""
    here = head
    for index in taken:
        while following[here] < index:
            here = following[here]
        following[index], following[here] = following[here], index
    return following[head]
