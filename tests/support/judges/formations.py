"""Cohort formations, enumerated: the worlds over which Bu's Theorem 1 counts (Bu, Definitions 8 and 9).

A world says who owns an instance in which of the ℓ cohorts, and which cohort is the holders'; every group must have as
many owners from each cohort as it shows s. Owners stay for good, and may be added. Because the cohorts are alike, the
risk of an owner is then 1/ℓ exactly, whatever is published, as long as any formation fits at all: that is the theorem.

With `is_handed_over` decoys may be replaced in every release, as cases M4, A1 and A2 allow, while holders may not. Then
the cohorts are no longer alike, and what is left is a count of holder sets (docs/permanent-audit.md). For small tables.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from math import factorial

Release = Sequence[tuple[Sequence[str], int]]  # groups: their people, and how often they show s
Formation = tuple[frozenset[str], ...]  # the owners of each cohort, the holders' first


def formations(releases: Sequence[Release], l: int, is_handed_over: bool = False) -> dict[Formation, int]:
    """Every formation that fits all releases, with the number of series that lead to it.

    Each is listed with either cohort as the holders', and decoy cohorts in any order: ℓ! times without hand-overs.
    """
    found: dict[Formation, int] = {(frozenset(),) * l: 1}
    for release in releases:
        for people, shown in release:
            following: dict[Formation, int] = defaultdict(int)
            for formation, count in found.items():
                kept = (
                    (formation[0], *(cohort - set(people) for cohort in formation[1:])) if is_handed_over else formation
                )
                for fresh in _fill(kept, frozenset(people), shown, 0):
                    following[fresh] += count
            found = dict(following)
    return found


def _fill(formation: Formation, people: frozenset[str], shown: int, at: int) -> Iterator[Formation]:
    """Every way to bring each cohort from the one at `at` up to `shown` owners among these people."""
    if at == len(formation):
        yield formation
        return
    missing = shown - len(formation[at] & people)
    if missing < 0:
        return
    taken = frozenset().union(*formation)
    for fresh in combinations(sorted(people - taken), missing):
        filled = (*formation[:at], formation[at].union(fresh), *formation[at + 1 :])
        yield from _fill(filled, people, shown, at + 1)


def count_unordered(found: dict[Formation, int]) -> int:
    """How many formations there are if neither their order nor which is the holders' counts; without hand-overs."""
    return len(found) // factorial(len(next(iter(found)))) if found else 0


def risk(found: dict[Formation, int], person: str) -> Fraction:
    """The share of worlds in which somebody owns an instance of the holders' cohort; there must be a world."""
    linked = sum(count for formation, count in found.items() if person in formation[0])
    return Fraction(linked, sum(found.values()))
