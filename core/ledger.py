"""The ledger: what each person has already paid, kept so that any breach can be recomputed exactly (Wong, section 7).

A person's account is the list of groups they were ever published in; a group's histogram is stored once and shared by
everybody who was in it. A group that is carried over is the same draw, so it stands in the list once (DESIGN, G2).
From the two, survival for any value, or set of values, follows at any time. Floats guide the search for groups; where
a float comes near the bound, exact fractions decide, so rounding can never spend more than was promised.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from core.hierarchy import Hierarchy
from core.policy import Policy

NEAR = 1e-9  # relative distance to the bound within which floats are not trusted


class GroupRecord(NamedTuple):
    """A formation as it was published: the release, the people, and (node of the sensitive hierarchy, count) pairs."""

    formed: int
    people: int
    shown: tuple[tuple[int, int], ...]


class Account(NamedTuple):
    """One person's standing for one value."""

    survival: float
    exposures: int


def weights(record: GroupRecord, hierarchy: Hierarchy) -> dict[int, Fraction]:
    """w(s, G) of every leaf s the group may show: 1 for the leaf itself, 1/leaves(v) for each v above it, 0 for "*"."""
    found: dict[int, Fraction] = {}
    for node, count in record.shown:
        if node == 0:
            continue
        first, last = hierarchy.first[node], hierarchy.last[node]
        for leaf in range(first, last):
            found[leaf] = found.get(leaf, Fraction(0)) + Fraction(count, last - first)
    return found


def effective_people(record: GroupRecord) -> int:
    """n(G): the people of a group less the "*" it shows, which are taken to sit on other people; at least 1."""
    stars = sum(count for node, count in record.shown if node == 0)
    return max(1, record.people - stars)


class Ledger:
    """Every group ever formed, and what being in it costs."""

    def __init__(self, policy: Policy) -> None:
        self._hierarchy = policy.sensitive.hierarchy
        self._open = policy.sensitive.open
        self._bound = 1 / Fraction(policy.l)
        self.floor = float(1 - self._bound)
        self._records: dict[int, GroupRecord] = {}
        self._shares: dict[int, tuple[tuple[int, float], ...]] = {}

    def copy(self) -> "Ledger":
        twin = object.__new__(Ledger)
        twin.__dict__.update(self.__dict__)
        twin._records, twin._shares = dict(self._records), dict(self._shares)
        return twin

    def put(self, group: int, record: GroupRecord) -> None:
        self._records[group] = record
        self._shares.pop(group, None)

    def record(self, group: int) -> GroupRecord:
        return self._records[group]

    def records(self) -> Mapping[int, GroupRecord]:
        return self._records

    def exact_shares(self, group: int) -> dict[int, Fraction]:
        """w(s, G) / n(G), capped at 1, for each protected leaf the group may show."""
        record = self._records[group]
        people = effective_people(record)
        found = weights(record, self._hierarchy)
        return {leaf: min(Fraction(1), weight / people) for leaf, weight in found.items() if leaf not in self._open}

    def shares(self, group: int) -> tuple[tuple[int, float], ...]:
        """The same as floats, kept."""
        kept = self._shares.get(group)
        if kept is None:
            exact = self.exact_shares(group)
            kept = self._shares[group] = tuple((leaf, float(share)) for leaf, share in exact.items())
        return kept

    def accounts(self, exposures: Iterable[int]) -> dict[int, Account]:
        """Survival and number of exposures for each protected value a person was ever exposed to."""
        found: dict[int, Account] = {}
        for group in exposures:
            for leaf, share in self.shares(group):
                before = found.get(leaf)
                if before is None:
                    found[leaf] = Account(1.0 - share, 1)
                else:
                    found[leaf] = Account(before.survival * (1.0 - share), before.exposures + 1)
        return found

    def can_afford(self, exposures: Iterable[int], leaf: int, survival: float, share: Fraction) -> bool:
        """Whether one more exposure with this share keeps breach <= 1/l; exact where floats come near the bound."""
        after = survival * (1.0 - float(share))
        if after > self.floor * (1 + NEAR):
            return True
        if after < self.floor * (1 - NEAR):
            return False
        exact = 1 - share
        for group in exposures:
            exact *= 1 - self.exact_shares(group).get(leaf, Fraction(0))
        return exact >= 1 - self._bound

    def breach(self, exposures: Iterable[int], leaf: int) -> Fraction:
        """breach(o, s) of G2, exactly."""
        survival = Fraction(1)
        for group in exposures:
            survival *= 1 - self.exact_shares(group).get(leaf, Fraction(0))
        return 1 - survival
