"""What may be shown of a person: for each held entry under a signature, plainly, or as "*" (docs/design.md, S2 and S3).

The rules are about one person at a time and never look at which value an entry has, where that would tell it:

- what was shown in a group goes on being shown there, unless a guard named later forbids it;
- a new value that lies in one of the person's signatures needs a new group of that signature (S2);
- while there is one protected value that the person might get and that could only be "*", nothing of theirs is shown
  that was not shown before (S3, all or nothing). Of several entries not yet shown, one release shows only as many as
  would be safe wherever they lay, drawn unseen;
- a guard is a sum over signatures: j·|S ∩ A|/(m - c) stays within its bound, wherever one more value lay. j is the
  number of values shown under S, and c the number of insiders; for somebody with a guard, a value that comes back is
  not yet shown either. A value that was shown plainly counts as a signature of one.

What was never shown has no say in any of this: a signature that avoids a value shown as "*" would tell it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import floor
from typing import Final, NamedTuple

from shoal.core.events.guard import EMPTY, Guard
from shoal.core.policy.policy import Policy
from shoal.core.signatures.entries import BARRED, CURRENT, HELD, NO_SIGNATURE, PLAIN, STARRED

SHOW_PLAIN: Final = -2
SHOW_STAR: Final = -3
SHOW_NEW: Final = -1  # under a signature that is still to be chosen; a number from 0 up is a signature
UNDECIDED: Final = -4

UNLIMITED: Final = 1 << 30


class Held(NamedTuple):
    """An entry as the rules see it."""

    entry: int
    value: int
    signature: int
    flags: int
    draw: int


class Verdict(NamedTuple):
    """By entry, how it is shown; and what a new signature of this person must not hold."""

    shown: dict[int, int]
    taken: frozenset[int] = frozenset()


@cache
def most_shown(m: int, l: float, insiders: int) -> int:
    """f: how many different values of one person may be shown under one signature of m values (S3)."""
    return floor(Fraction(m - insiders) / Fraction(l))


class Beside(NamedTuple):
    """What other publishers' groups around a person ask for (see `blocks.py`).

    Of somebody inside, the only value they ever held may be shown, if anything new may be.
    """

    is_inside: bool = False
    may_be_new: bool = True


FREE: Final = Beside()


@dataclass
class Judge:
    """The rules under one policy. `sets` are the signatures by number; it grows as they do."""

    policy: Policy
    sets: Sequence[tuple[int, ...]]
    transient: frozenset[int] = field(init=False)
    permanent: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        sensitive = self.policy.sensitive
        protected = frozenset(range(len(sensitive.hierarchy.leaves))) - sensitive.open
        self.transient = protected - sensitive.permanent
        has_signatures = len(sensitive.permanent) >= self.policy.signature
        self.permanent = sensitive.permanent if has_signatures else frozenset()

    def most_under(self, signature: int) -> int:
        """How many different values of one person may be shown under this signature."""
        return most_shown(len(self.sets[signature]), self.policy.l, self.policy.insiders)

    def decide(self, mine: Sequence[Held], guard: Guard | None, beside: Beside = FREE) -> Verdict:
        """How each held entry of one person is shown; `mine` are all entries they ever had, permanent cliques aside."""
        now = [held for held in mine if held.flags & HELD]
        guarded = self._guarded(guard)
        if guarded is None:
            return Verdict({held.entry: SHOW_STAR for held in now})
        shown, plain = _history(mine)
        is_empty = guard is not None and guard.node == EMPTY
        forbidden = {held.signature for held in mine if held.flags & BARRED}
        most_spells = UNLIMITED
        if guarded:
            told = sum(value < 0 or value in guarded for value in plain)  # a remainder may have been any value
            left = self._bound(guard) - self._spent(shown, guarded) - told
            if left < 0:
                forbidden.update([one for one in shown if guarded.intersection(self.sets[one])])
            most_spells = self._safe_spells(shown, plain, guarded, left)
        decided: dict[int, int] = {}
        waiting: list[Held] = []
        for held in now:
            how = decided[held.entry] = self._decide_one(held, shown, forbidden, is_empty)
            if how == UNDECIDED or (guarded and how >= 0 and not held.flags & CURRENT):
                waiting.append(held)
        if waiting:
            most = 0 if forbidden else self._safe_number(shown, plain, is_empty)
            if beside.is_inside:
                known = [held for held in mine if held.flags or held.signature != NO_SIGNATURE]
                ever = sum(not self._is_open(held.value) for held in known)
                most = min(most, int(beside.may_be_new and guard is None and ever == 1))
            self._share_out(waiting, most, most_spells, shown, decided)
        return Verdict(decided, frozenset(self._taken(shown, plain)) | self._guarded_leaves(guard))

    def _decide_one(self, held: Held, shown: dict[int, set[int]], forbidden: set[int], is_empty: bool) -> int:
        """How an entry is shown as far as others do not matter; UNDECIDED for one that was not yet shown."""
        home = self._signature_of(held, shown)
        if home in forbidden or (held.flags & STARRED and held.signature != PLAIN):
            return SHOW_STAR
        if held.signature >= 0:
            return held.signature
        if home < 0 and (self._is_open(held.value) or (is_empty and held.value in self.transient)):
            return SHOW_PLAIN
        return SHOW_STAR if held.signature == PLAIN else UNDECIDED

    def _share_out(
        self,
        waiting: list[Held],
        most: int,
        most_spells: int,
        shown: dict[int, set[int]],
        decided: dict[int, int],
    ) -> None:
        """Show as many of these as are safe, drawn unseen: `most` not yet shown, `most_spells` in all."""
        for held in sorted(waiting, key=lambda one: one.draw):
            is_unseen = held.signature == NO_SIGNATURE
            if not most_spells or (is_unseen and not most):
                decided[held.entry] = SHOW_STAR
                continue
            most_spells, most = most_spells - 1, most - is_unseen
            if is_unseen:
                decided[held.entry] = self._signature_of(held, shown)

    def _is_open(self, value: int) -> bool:
        return value in self.policy.sensitive.open

    def _signature_of(self, held: Held, shown: dict[int, set[int]]) -> int:
        """The signature that holds this value already, or SHOW_NEW."""
        if held.signature >= 0:
            return held.signature
        if held.signature == PLAIN:
            return SHOW_NEW
        return next((signature for signature in shown if held.value in self.sets[signature]), SHOW_NEW)

    # -- guards -------------------------------------------------------------------------------------------------

    def _guarded(self, guard: Guard | None) -> frozenset[int] | None:
        """The protected leaves of a guard; None if it makes everything "*"."""
        if guard is None or guard.node == EMPTY:
            return frozenset()
        hierarchy, sensitive = self.policy.sensitive.hierarchy, self.policy.sensitive
        leaves = frozenset(range(hierarchy.first[guard.node], hierarchy.last[guard.node]))
        if leaves & sensitive.open or self._bound(guard) < Fraction(1, self._unknown(self.policy.signature)):
            return None
        return leaves - sensitive.permanent

    def _unknown(self, m: int) -> int:
        """How many of the m values of a signature are left to choose from for somebody who knows the insiders'."""
        return m - self.policy.insiders

    def _guarded_leaves(self, guard: Guard | None) -> frozenset[int]:
        """The leaves of a guard, of which a new signature holds none but the entry's own."""
        if guard is None or guard.node == EMPTY:
            return frozenset()
        hierarchy = self.policy.sensitive.hierarchy
        return frozenset(range(hierarchy.first[guard.node], hierarchy.last[guard.node]))

    def _bound(self, guard: Guard | None) -> Fraction:
        own = guard.bound if guard is not None else None
        return Fraction(1) / Fraction(self.policy.l) if own is None else Fraction(own)

    def _spent(self, shown: dict[int, set[int]], guarded: frozenset[int]) -> Fraction:
        """The sum of j·|S ∩ A|/(m - c)."""
        return sum((self._share(one, guarded) * len(values) for one, values in shown.items()), Fraction(0))

    def _share(self, signature: int, guarded: frozenset[int]) -> Fraction:
        values = self.sets[signature]
        return Fraction(len(guarded.intersection(values)), self._unknown(len(values)))

    # -- all or nothing -----------------------------------------------------------------------------------------

    def _safe_number(self, shown: dict[int, set[int]], plain: set[int], is_empty: bool) -> int:
        """How many entries not yet shown may be shown now, wherever they lie (S3)."""
        if not is_empty and plain - self.policy.sensitive.open:
            return 0  # such a value could only be "*"
        most = min([self.most_under(signature) - len(values) for signature, values in shown.items()], default=UNLIMITED)
        m, taken = self.policy.signature, self._taken(shown, plain)
        for kind in (self.transient, self.permanent):
            outside = len(kind) - len(kind & taken)
            if outside:
                most = min(most, most_shown(m, self.policy.l, self.policy.insiders) * (outside // m))
        return max(0, most)

    def _safe_spells(self, shown: dict[int, set[int]], plain: set[int], guarded: frozenset[int], left: Fraction) -> int:
        """How many spells not yet shown may be shown now within what is left of a guard's bound, wherever they lie."""
        m, free = self.policy.signature, self.transient - self._taken(shown, plain)
        worst = max([self._share(signature, guarded) for signature in shown], default=Fraction(0))
        if free & guarded:
            worst = max(worst, Fraction(1, self._unknown(m)))  # a new signature holds none of A but its own value
        return max(0, floor(left / worst)) if worst else UNLIMITED

    def _taken(self, shown: dict[int, set[int]], plain: set[int]) -> set[int]:
        """The values that a new signature must not hold."""
        known = {value for value in plain if value >= 0}
        return {value for signature in shown for value in self.sets[signature]} | known


def _history(mine: Sequence[Held]) -> tuple[dict[int, set[int]], set[int]]:
    """By signature of a person the values shown under it, and the values that were shown plainly."""
    shown: dict[int, set[int]] = {}
    plain: set[int] = set()
    for held in mine:
        if held.signature >= 0:
            shown.setdefault(held.signature, set()).add(held.value)
        elif held.signature == PLAIN:
            plain.add(held.value)
    return shown, plain
