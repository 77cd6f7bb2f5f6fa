"""The papers' attacks, measured on naive releases of the same data and on these releases.

(a) `LocalAttack`: every release is ℓ-diverse by itself and redrawn each time; over releases some (person, value) pairs
    exceed 1/ℓ all the same (Wong, section 1).
(b) `IntersectionAttack`: every release is k-anonymous by itself; intersecting a person's regions tells them apart
    from all but fewer than k rows (Pei, section 1, tables 2, 5 and 6).
(d) `Persistence`: if, against the model, values stay as they are, whoever holds a value has it in all of their groups;
    the intersection of what those show is a set of candidates (docs/design.md, "Outside the model").

All three see the same true tables; (c) of the auditor's brief is that these are the user's own.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from shoal.core.audit.attack.naive import bucketize, mondrian, shares_of_group
from shoal.core.audit.criteria.exposure import breach_of
from shoal.core.audit.reading.regions import Region
from shoal.core.audit.reading.truth import Record, exact
from shoal.core.policy.policy import Policy


class Linked(NamedTuple):
    """Over how many (person, value) pairs the bound is exceeded, of how many there are any exposures to."""

    pairs: int
    over: int
    true: int  # of those over: the person did have the value at one of the releases
    people: int
    largest: Fraction


class LocalAttack:
    """(a) Publishes locally ℓ-diverse groups at every release and adds up what they say about each person."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._draws: dict[str, list[Mapping[int, Fraction]]] = defaultdict(list)
        self._held: dict[str, frozenset[int]] = {}

    def see(self, number: int, table: Mapping[str, Record]) -> list[list[str]]:
        """Publishes a release; returns its groups."""
        groups = bucketize(self._policy, table, number)
        for people in groups:
            shares = shares_of_group(self._policy, table, people)
            for person in people:
                self._draws[person].append(shares)
                self._held[person] = self._held.get(person, frozenset()) | table[person].values
        return groups

    def result(self) -> Linked:
        bound, pairs, over, true, people, largest = 1 / exact(self._policy.l), 0, 0, 0, 0, Fraction(0)
        for person, draws in self._draws.items():
            exceeded = [0, 0]
            for leaf in {leaf for shares in draws for leaf in shares}:
                breach = breach_of(draws, (leaf,))
                largest = max(largest, breach)
                pairs += 1
                if breach > bound:
                    exceeded[leaf in self._held[person]] += 1
            over += sum(exceeded)
            true += exceeded[1]
            people += any(exceeded)
        return Linked(pairs, over, true, people, largest)


def unsafe_rows(inferred: Iterable[Region], k: int) -> int:
    """Rows of an inference table that fewer than k rows are like (Pei, section 2)."""
    return sum(rows for rows in Counter(inferred).values() if rows < k)


class Inference:
    """What is known of everyone's region after several releases: the intersection, until identifiers change."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, Region]] = {}

    def see(self, regions: Mapping[str, Region], since: Mapping[str, int]) -> list[Region]:
        """The inference table of the people in a release, given the region each was shown with."""
        for person, region in regions.items():
            known = self._known.get(person)
            if known is not None and known[0] == since[person]:
                region = known[1].intersect(region)
            self._known[person] = since[person], region
        return [self._known[person][1] for person in regions]


class Unsafe(NamedTuple):
    """Rows of the last release, and those told apart from all but fewer than k."""

    rows: int
    unsafe: int


class IntersectionAttack:
    """(b) Publishes every release with Mondrian, by itself, and intersects."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._inference = policy, Inference()
        self.result = Unsafe(0, 0)

    def see(self, table: Mapping[str, Record], since: Mapping[str, int]) -> None:
        qids = {person: record.qid for person, record in table.items()}
        regions = mondrian(self._policy.attributes, self._policy.k, qids)
        inferred = self._inference.see(regions, since)
        self.result = Unsafe(len(inferred), unsafe_rows(inferred, self._policy.k))


class Pinned(NamedTuple):
    """People of the last release by how many candidates they have, and those whose candidates are just their values."""

    people: int
    sizes: Mapping[int, int]
    pinned: int
    pinned_protected: int  # of those: with a value that is not open


class Persistence:
    """(d) Intersects what a person's groups show, for as long as their values stay what they are."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._everything = (1 << len(policy.sensitive.hierarchy.leaves)) - 1
        self._candidates: dict[str, tuple[frozenset[int], int]] = {}  # values then, and a bit for each leaf still in
        self._published: dict[str, frozenset[int]] = {}

    def see(self, groups: Iterable[tuple[Sequence[str], int]], table: Mapping[str, Record]) -> None:
        """Takes a release: the people of each group, and the leaves it shows, a bit each."""
        candidates: dict[str, tuple[frozenset[int], int]] = {}
        self._published = {}
        for people, shown in groups:
            for person in people:
                values = table[person].values
                known = self._candidates.get(person)
                is_same = known is not None and known[0] == values
                before = known[1] if known is not None and is_same else self._everything
                candidates[person] = values, before & shown
                self._published[person] = values
        for person, known in self._candidates.items():
            if person not in candidates and person in table and table[person].values == known[0]:
                candidates[person] = known  # withheld in this release, and still what they were
        self._candidates = candidates

    def bits(self, shown: Iterable[int]) -> int:
        """The leaves that nodes stand for, a bit each; "*" stands for all."""
        hierarchy, found = self._policy.sensitive.hierarchy, 0
        for node in shown:
            found |= (1 << hierarchy.last[node]) - (1 << hierarchy.first[node])
        return found

    def size(self, person: str) -> int | None:
        """How many candidates somebody has; None if nothing is known of them now."""
        known = self._candidates.get(person)
        return None if known is None else known[1].bit_count()

    def result(self) -> Pinned:
        sizes: Counter[int] = Counter()
        pinned = pinned_protected = 0
        for person, values in self._published.items():
            size = self._candidates[person][1].bit_count()
            sizes[size] += 1
            pinned += size <= len(values)
            pinned_protected += size <= len(values) and bool(values - self._policy.sensitive.open)
        return Pinned(len(self._published), dict(sorted(sizes.items())), pinned, pinned_protected)
