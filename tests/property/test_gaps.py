"""Places that fall free: what somebody learns of those who left who knows the rules and every place that is offered.

All values that those who leave may have are counted. Worlds in which the same places are offered in every release
cannot be told apart, and are equally likely. In a *small* signature every value is held once. In a *large* one, what
some had says nothing about the others.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

from shoal.core.signatures.signature import Signatures

World = tuple[int, ...]
Offer = Callable[[Signatures, Sequence[int], float], None]
Departures = Sequence[Sequence[int]]  # the entries that leave in each release


def by_the_rules(signatures: Signatures, slots: Sequence[int], l: float) -> None:
    signatures.offer(np.zeros(len(slots), dtype=np.int64), np.array(slots, dtype=np.int64), l)


def everything_at_once(signatures: Signatures, slots: Sequence[int], l: float) -> None:
    for slot in slots:
        signatures.offered[0, slot] += 1


def capped_though_known_alike(signatures: Signatures, slots: Sequence[int], l: float) -> None:
    """Wait until the values are mixed, and then offer all of them."""
    for slot in slots:
        signatures.pending[0, slot] += 1
    pending = signatures.pending[0]
    if pending.sum() >= l and pending.max() * l <= pending.sum():
        signatures.offered[0] += pending
        signatures.pending[0] = 0


def worlds(m: int, departures: Departures, *, is_large: bool) -> Iterator[World]:
    """What everybody who leaves may have."""
    leaving = sum(map(len, departures))
    yield from product(range(m), repeat=leaving) if is_large else permutations(range(m), leaving)


def largest_posterior(m: int, l: float, departures: Departures, offer: Offer, *, is_large: bool) -> Fraction:
    """The most that any value of anybody who left gets, over everything that can be seen."""
    seen: dict[tuple[tuple[int, ...], ...], list[World]] = defaultdict(list)
    for world in worlds(m, departures, is_large=is_large):
        signatures = Signatures()
        signatures.number(tuple(range(m)))
        history = []
        for leaving in departures:
            offer(signatures, [world[entry] for entry in leaving], l)
            history.append(tuple(signatures.offered[0].tolist()))
        seen[tuple(history)].append(world)
    gone = [entry for leaving in departures for entry in leaving]
    return max(
        Fraction(max(Counter(world[entry] for world in alike).values()), len(alike))
        for alike in seen.values()
        for entry in gone
    )


HISTORIES: list[tuple[int, float, Departures, bool]] = [
    (4, 2, [[0], [1], [2], [3]], False),
    (6, 2.5, [[0, 1, 2], [3], [4, 5]], False),
    (6, 3, [[0, 1], [2], [3], [4, 5]], False),
    (4, 2, [[0], [1], [2], [3], [4]], True),
    (4, 2, [[0, 1], [2, 3], [4]], True),
    (4, 2, [[0], [1, 2, 3, 4]], True),
    (4, 2, [[0, 1, 2, 3, 4, 5]], True),
    (4, 2, [[0, 1, 2], [3, 4, 5]], True),
    (6, 3, [[0, 1], [2, 3], [4]], True),
]

each_history = pytest.mark.parametrize(("m", "l", "departures", "is_large"), HISTORIES)


@each_history
def test_offers_give_no_value_of_anybody_who_left_more_than_one_in_l(
    m: int, l: float, departures: Departures, is_large: bool
) -> None:
    assert largest_posterior(m, l, departures, by_the_rules, is_large=is_large) <= Fraction(1) / Fraction(l)


@each_history
def test_offering_every_place_at_once_tells_what_they_had(
    m: int, l: float, departures: Departures, is_large: bool
) -> None:
    assert largest_posterior(m, l, departures, everything_at_once, is_large=is_large) > Fraction(1) / Fraction(l)


def test_a_batch_that_waited_must_not_be_offered_like_any_other() -> None:
    """It waited because the first had the same value, so the value that is offered twice would be theirs."""
    departures = [[0], [1], [2, 3]]
    assert largest_posterior(4, 2, departures, capped_though_known_alike, is_large=True) == 1
    assert largest_posterior(4, 2, departures, by_the_rules, is_large=True) <= Fraction(1, 2)


def test_most_places_are_offered() -> None:
    """Rules that offer nothing would pass the tests above."""
    departures = [[0, 1], [2, 3], [4]]
    left = offered = 0
    for world in worlds(4, departures, is_large=True):
        signatures = Signatures()
        signatures.number((0, 1, 2, 3))
        for leaving in departures:
            by_the_rules(signatures, [world[entry] for entry in leaving], 2)
        left, offered = left + 5, offered + int(signatures.offered[0].sum())
    assert offered > 0.6 * left
