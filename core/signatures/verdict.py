"""What may be shown of a person: for each held entry under a signature, plainly, or as "*" (docs/design.md, S2 and S3).

The rules are about one person at a time and never look at which value an entry has, where that would tell it:

- what was shown under a signature goes on being shown, unless a guard named later forbids it;
- a value that lies in one of the person's signatures takes that signature (S2);
- while there is one protected value that the person might get and that could only be "*", nothing of theirs is shown
  that was not shown before (S3, all or nothing). Of several entries not yet shown, one release shows only as many as
  would be safe wherever they lay, drawn unseen;
- a guard is a sum over signatures: j·|S ∩ A|/m stays within its bound, wherever one more spell lay. j is the number of
  spells shown under S, at most m/l; so for somebody with a guard, a value that comes back is not yet shown either. A
  value that was shown plainly counts as a signature of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import floor
from typing import Final, NamedTuple

from shoal.core.events.guard import EMPTY, Guard
from shoal.core.policy.policy import Policy
from shoal.core.signatures.entries import BARRED, CURRENT, HELD, PLAIN, SHOWN, STARRED

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
    spells: int
    draw: int


class Verdict(NamedTuple):
    """By entry, how it is shown; and what a new signature of this person must not hold."""

    shown: dict[int, int]
    taken: frozenset[int] = frozenset()


@cache
def most_shown(m: int, l: float) -> int:
    """How many different values of one person may be shown under one signature of m values (S3)."""
    return floor(Fraction(m) / Fraction(l))


@dataclass(frozen=True)
class Beside:
    """What other publishers' groups around a person ask for (see `blocks.py`).

    `blocks` are the signatures a new entry may take, by value; None for a person who is in nobody else's groups.
    """

    blocks: dict[int, int] | None = None
    has_every_block: bool = True


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
        return most_shown(len(self.sets[signature]), self.policy.l)

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
            left = self._bound(guard) - self._spent(mine, guarded) - told
            if left < 0:
                forbidden.update([one for one in shown if guarded.intersection(self.sets[one])])
            most_spells = self._safe_spells(shown, plain, guarded, left, beside)
        decided: dict[int, int] = {}
        waiting: list[Held] = []
        for held in now:
            how = decided[held.entry] = self._decide_one(held, shown, forbidden, is_empty)
            if how == UNDECIDED or (guarded and how >= 0 and not held.flags & CURRENT):
                waiting.append(held)
        if waiting:
            most = self._safe_number(shown, plain, is_empty, beside)
            self._share_out(waiting, most, most_spells, shown, beside, decided)
        return Verdict(decided, frozenset(self._taken(shown, plain).union([held.value for held in now])))

    def _decide_one(self, held: Held, shown: dict[int, set[int]], forbidden: set[int], is_empty: bool) -> int:
        """How an entry is shown as far as others do not matter; UNDECIDED for one that was not yet shown."""
        home = self._signature_of(held, shown)
        if home in forbidden:
            return SHOW_STAR
        if held.flags & SHOWN and held.signature >= 0:
            return held.signature
        if held.flags & STARRED and held.signature != PLAIN:
            return SHOW_STAR
        if home < 0 and (self._is_open(held.value) or (is_empty and held.value in self.transient)):
            return SHOW_PLAIN
        return SHOW_STAR if held.signature == PLAIN else UNDECIDED

    def _share_out(
        self,
        waiting: list[Held],
        most: int,
        most_spells: int,
        shown: dict[int, set[int]],
        beside: Beside,
        decided: dict[int, int],
    ) -> None:
        """Show as many of these as are safe, drawn unseen: `most` not yet shown, `most_spells` in all."""
        for held in sorted(waiting, key=lambda one: one.draw):
            is_unseen = not held.flags & SHOWN
            if not most_spells or (is_unseen and not most):
                decided[held.entry] = SHOW_STAR
                continue
            most_spells, most = most_spells - 1, most - is_unseen
            if is_unseen:
                decided[held.entry] = how = self._signature_of(held, shown)
                if how == SHOW_NEW and beside.blocks is not None:
                    decided[held.entry] = beside.blocks[held.value]

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
        if leaves & sensitive.open or self._bound(guard) < Fraction(1, self.policy.signature):
            return None
        return leaves - sensitive.permanent

    def guarded_leaves(self, guard: Guard | None) -> frozenset[int]:
        """The leaves of a guard, of which a new signature holds none but the entry's own."""
        if guard is None or guard.node == EMPTY:
            return frozenset()
        hierarchy = self.policy.sensitive.hierarchy
        return frozenset(range(hierarchy.first[guard.node], hierarchy.last[guard.node]))

    def _bound(self, guard: Guard | None) -> Fraction:
        own = guard.bound if guard is not None else None
        return Fraction(1) / Fraction(self.policy.l) if own is None else Fraction(own)

    def _spent(self, mine: Sequence[Held], guarded: frozenset[int]) -> Fraction:
        """The sum of j·|S ∩ A|/m."""
        spells: dict[int, int] = {}
        for held in mine:
            if held.signature >= 0:
                spells[held.signature] = spells.get(held.signature, 0) + held.spells
        counted = ((one, min(number, self.most_under(one))) for one, number in spells.items())
        return sum((self._share(signature, guarded) * number for signature, number in counted), Fraction(0))

    def _share(self, signature: int, guarded: frozenset[int]) -> Fraction:
        values = self.sets[signature]
        return Fraction(len(guarded.intersection(values)), len(values))

    # -- all or nothing -----------------------------------------------------------------------------------------

    def _safe_number(self, shown: dict[int, set[int]], plain: set[int], is_empty: bool, beside: Beside) -> int:
        """How many entries not yet shown may be shown now, wherever they lie (S3)."""
        if not beside.has_every_block:
            return 0
        if not is_empty and plain - self.policy.sensitive.open:
            return 0  # such a value could only be "*"
        most = min([self.most_under(signature) - len(values) for signature, values in shown.items()], default=UNLIMITED)
        m, taken = self.policy.signature, self._taken(shown, plain)
        for kind in (self.transient, self.permanent) if beside.blocks is None else ():
            outside = len(kind) - len(kind & taken)
            if outside:
                most = min(most, most_shown(m, self.policy.l) * (outside // m))
        return max(0, most)

    def _safe_spells(
        self, shown: dict[int, set[int]], plain: set[int], guarded: frozenset[int], left: Fraction, beside: Beside
    ) -> int:
        """How many spells not yet shown may be shown now within what is left of a guard's bound, wherever they lie."""
        m, free = self.policy.signature, self.transient - self._taken(shown, plain)
        known = shown.keys() if beside.blocks is None else {*shown, *beside.blocks.values()}
        worst = max([self._share(signature, guarded) for signature in known], default=Fraction(0))
        if free & guarded and beside.blocks is None:
            worst = max(worst, Fraction(max(1, m - len(free - guarded)), m))
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
        was_shown = held.flags & SHOWN
        if held.signature >= 0:
            values = shown.setdefault(held.signature, set())
            if was_shown:
                values.add(held.value)
        elif was_shown and held.signature == PLAIN:
            plain.add(held.value)
    return shown, plain
