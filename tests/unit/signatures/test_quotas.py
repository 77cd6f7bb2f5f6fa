"""Packing newcomers into rounds: exact where that is possible, and with company for those that are left out."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.signatures.quotas import find_surplus, pack_known, pack_rarest, peel, wrap_around
from shoal.core.signatures.signature import Signatures

counts_of_values = st.lists(st.integers(0, 30), min_size=4, max_size=12).map(np.array)


def shown(rounds: dict[tuple[int, ...], int], values: int) -> list[int]:
    """How many places each value has."""
    return [sum(times for signature, times in rounds.items() if value in signature) for value in range(values)]


@given(counts_of_values)
def test_wrap_around_is_exact_when_no_value_is_more_than_one_in_m(counts: np.ndarray) -> None:
    counts = np.minimum(counts, counts.sum() // 4)
    counts[-1] += -counts.sum() % 4 if counts[-1] + (-counts.sum() % 4) <= counts.sum() // 4 else 0
    rounds = int(counts.sum()) // 4
    if counts.sum() % 4 or counts.max(initial=0) > rounds:
        return
    made = wrap_around(counts, 4, rounds, range(len(counts)))
    assert shown(made, len(counts)) == counts.tolist()
    assert all(len(set(signature)) == 4 for signature in made)
    assert len(made) <= len(counts)


@given(counts_of_values)
def test_packing_the_rarest_takes_whole_rounds_and_leaves_what_still_makes_rounds(counts: np.ndarray) -> None:
    before = np.minimum(counts, counts.sum() // 4)
    before[before.argmin()] -= min(int(before.min()), int(before.sum()) % 4)
    if before.sum() % 4 or before.max(initial=0) * 4 > before.sum():
        return
    left = before.copy()
    made = pack_rarest(left, 4)
    assert (left + shown(made, len(left)) == before).all()
    assert left.max(initial=0) * 4 <= left.sum()
    assert all(len(set(signature)) == 4 and times > 0 for signature, times in made.items())
    rest = wrap_around(left, 4, int(left.sum()) // 4, range(len(left)))
    assert (shown(rest, len(left)) == left).all()


def test_a_rare_value_has_all_its_newcomers_in_one_signature() -> None:
    counts = np.array([70, 9, 60, 10, 60, 9, 60, 10, 72])
    made = pack_rarest(counts, 4)
    assert made[(1, 3, 5, 7)] == 9
    assert not counts.any()


def test_a_value_of_which_every_round_needs_one_is_in_every_signature() -> None:
    counts = np.array([50, 5, 5, 5, 45, 45, 45])
    made = pack_rarest(counts, 4)
    assert all(0 in signature for signature in made)
    assert made[(0, 1, 2, 3)] == 5


def test_values_that_do_not_fill_the_machines_leave_places_and_nobody_out() -> None:
    made = wrap_around(np.array([3, 2, 2, 1, 1]), 4, 3, range(5))
    assert all(places >= count for places, count in zip(shown(made, 5), [3, 2, 2, 1, 1], strict=True))


@given(counts_of_values, st.sampled_from([2.0, 2.5, 3.0]))
def test_among_those_left_out_for_one_value_no_value_is_more_than_one_in_l(counts: np.ndarray, l: float) -> None:
    surplus = find_surplus(counts, 6, l, 0)
    over = counts - surplus.shown
    assert over.max(initial=0) * l <= over.sum() + surplus.decoys or surplus.rounds == 0


def test_a_value_that_is_half_of_all_newcomers_is_starred_with_as_many_others() -> None:
    counts = np.array([10, 4, 4, 4, 4])
    surplus = find_surplus(counts, 4, 2, 0)
    starred = int((counts - surplus.shown).sum()) + surplus.decoys
    assert starred == 2 * (10 - surplus.rounds)
    assert 26 - starred >= 4 * surplus.rounds > 0


def test_peeling_puts_values_together_that_are_about_as_frequent() -> None:
    known = Signatures()
    counts = np.array([9, 3, 8, 4, 9, 3, 8, 4])
    made = peel(counts, 4, known, counts[None, :])
    assert [known.sets[number] for number in made.tolist()] == [(0, 2, 4, 6), (1, 3, 5, 7)]


def test_peeling_puts_values_together_that_are_frequent_in_the_same_neighbourhoods() -> None:
    known = Signatures()
    near = np.array([[8, 0, 7, 1, 8, 0, 6, 1], [0, 9, 1, 8, 0, 8, 1, 8]])
    made = peel(near.sum(axis=0), 4, known, near)
    assert [known.sets[number] for number in made.tolist()] == [(1, 3, 5, 7), (0, 2, 4, 6)]


@given(counts_of_values)
def test_signatures_in_use_take_no_more_than_there_is_and_leave_what_can_be_packed(counts: np.ndarray) -> None:
    known = Signatures()
    for first in range(len(counts) - 3):
        known.number((first, first + 1, first + 2, first + 3))
    before = counts.copy()
    rounds = pack_known(counts, known, np.arange(len(known)), 4)
    taken = np.zeros(len(counts), dtype=np.int64)
    for number, times in enumerate(rounds.tolist()):
        taken[list(known.sets[number])] += times
    assert (taken + counts == before).all()
    assert counts.min() >= 0
