"""Choosing signatures: newcomers come out even, and those of one person never overlap."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.cells.tree import Rows
from shoal.core.signatures.choice import Choice, choose_signatures
from shoal.core.signatures.leftovers import Spare, round_up
from shoal.core.signatures.newcomers import UNDECIDED, Newcomers
from shoal.core.signatures.places import Gaps
from shoal.core.signatures.signature import Signatures

VALUES, M, L = 24, 4, 2
seeds = st.integers(0, 10_000)


def draw_newcomers(seed: int, people: int, several: float) -> tuple[Newcomers, list[int]]:
    """Newcomers and the person of each; a share of the people has two or three values."""
    random = Random(seed)
    owners, values = [], []
    for person in range(people):
        count = random.choice([2, 3]) if random.random() < several else 1
        for value in random.sample(range(VALUES), count):
            owners.append(person)
            values.append(value)
    siblings = {
        at: [other for other, owner in enumerate(owners) if owner == mine and other != at]
        for at, mine in enumerate(owners)
        if owners.count(mine) > 1
    }
    shunned = {at: {values[other] for other in others} for at, others in siblings.items()}
    draws = np.array([random.getrandbits(60) for _ in owners], dtype=np.uint64)
    place = np.array([random.randrange(50) for _ in owners], dtype=np.int64)
    return Newcomers(np.array(values, dtype=np.int64), place, draws, shunned, siblings), owners


NOTHING = Spare(0, 0)


def choose(
    newcomers: Newcomers,
    known: Signatures,
    offered: Sequence[tuple[int, int]] = (),
    missing: int = 1,
    classes: Sequence[Rows] = (np.arange(VALUES),),
    spare: Spare = NOTHING,
) -> Choice:
    """Choose signatures; what is `offered`, pairs of signature and value, is of one round that lacks so many."""
    lines = np.array(offered, dtype=np.int64).reshape(-1, 2)
    each = np.ones(len(lines), dtype=np.int64)
    gaps = Gaps(lines[:, 1], lines[:, 0], each, each * missing, each == 0)
    usable = np.arange(len(known))
    return choose_signatures(newcomers, known, usable, classes, m=M, l=L, spare=spare, gaps=gaps)


@given(seeds, st.sampled_from([0.0, 0.3, 0.8]))
def test_every_signature_is_given_in_whole_rounds(seed: int, several: float) -> None:
    newcomers, _ = draw_newcomers(seed, 60, several)
    known = Signatures()
    choice = choose(newcomers, known)
    for number in set(choice.signature.tolist()) - {UNDECIDED}:
        counts = Counter(newcomers.value[choice.signature == number].tolist())
        assert set(counts) == set(known.sets[number])
        assert len(set(counts.values())) == 1


@given(seeds)
def test_signatures_of_one_person_have_nothing_in_common(seed: int) -> None:
    newcomers, owners = draw_newcomers(seed, 60, 0.8)
    known = Signatures()
    choice = choose(newcomers, known)
    seen: dict[int, set[int]] = {}
    for owner, number in zip(owners, choice.signature.tolist(), strict=True):
        if number != UNDECIDED:
            values = set(known.sets[number])
            assert seen.setdefault(owner, set()).isdisjoint(values)
            seen[owner] |= values


@given(seeds)
def test_people_with_several_values_change_places_rather_than_go_without(seed: int) -> None:
    newcomers, _ = draw_newcomers(seed, 300, 0.2)
    choice = choose(newcomers, Signatures())
    assert np.count_nonzero(choice.signature == UNDECIDED) <= 0.1 * len(choice.signature)


def test_a_place_that_is_offered_is_taken_first() -> None:
    newcomers, _ = draw_newcomers(1, 60, 0.0)
    known = Signatures()
    value = int(newcomers.value[0])
    number = known.number(tuple(sorted({value, *[other for other in range(VALUES) if other != value][:3]})))
    alone = Newcomers(newcomers.value[:1], newcomers.place[:1], newcomers.draw[:1], {}, {})
    assert choose(alone, known, [(number, value)]).signature.tolist() == [number]
    assert choose(alone, known).signature.tolist() == [UNDECIDED]


def test_places_are_taken_only_where_they_make_a_round_complete() -> None:
    """The others of an incomplete round are "*", and so would be the newcomer who joins them."""
    newcomers, _ = draw_newcomers(1, 60, 0.0)
    known = Signatures()
    number = known.number((0, 1, 2, 3))
    pair = newcomers._replace(value=np.array([0, 1]), place=newcomers.place[:2], draw=newcomers.draw[:2])
    places = [(number, 0), (number, 1)]
    assert choose(pair, known, places, missing=2).signature.tolist() == [number, number]
    assert choose(pair, known, places, missing=3).signature.tolist() == [UNDECIDED, UNDECIDED]


def test_a_class_that_comes_out_even_shares_no_signature_with_another() -> None:
    newcomers, _ = draw_newcomers(1, 24, 0.0)
    newcomers = newcomers._replace(value=np.array([0, 1, 2, 3] * 3 + [10, 11, 12, 13] * 3))
    known = Signatures()
    choice = choose(newcomers, known, classes=(np.arange(10), np.arange(10, VALUES)))
    assert {known.sets[number] for number in choice.signature.tolist()} == {(0, 1, 2, 3), (10, 11, 12, 13)}


def test_one_without_company_in_its_class_is_shown_among_the_values_of_another() -> None:
    newcomers, _ = draw_newcomers(1, 8, 0.0)
    newcomers = newcomers._replace(value=np.array([0, 1, 2, 3, 0, 10, 11, 12]))
    known = Signatures()
    choice = choose(newcomers, known, classes=(np.arange(10), np.arange(10, VALUES)))
    assert sorted(known.sets[number] for number in set(choice.signature.tolist())) == [(0, 1, 2, 3), (0, 10, 11, 12)]


def test_those_who_are_left_make_a_round_with_one_counterfeit_if_the_release_has_not_enough_of_them() -> None:
    newcomers, _ = draw_newcomers(1, 3, 0.0)
    newcomers = newcomers._replace(value=np.array([0, 1, 2]))
    known = Signatures()
    assert set(choose(newcomers, known).signature.tolist()) == {UNDECIDED}
    (number,) = set(choose(newcomers, known, spare=Spare(1, 1)).signature.tolist())
    assert set(known.sets[number]) > {0, 1, 2}
    assert set(choose(newcomers, known, spare=Spare(1, 0)).signature.tolist()) == {UNDECIDED}


def test_a_round_with_a_counterfeit_leaves_no_frequent_value_alone() -> None:
    """Seven of value 0 and one each of two others: a round of three values would leave six, all of value 0."""
    drawn, _ = draw_newcomers(1, 9, 0.0)
    newcomers = drawn._replace(value=np.array([0] * 7 + [1, 2]))
    nobody, everybody = np.full(9, UNDECIDED), np.arange(9)
    for l, spent in ((L, 0), (0.1, 1)):  # not asking for one in l would show three of them
        assert round_up(newcomers, everybody, Signatures(), np.arange(VALUES), M, l, 3, nobody.copy()) == spent


@given(seeds, st.integers(0, 60))
def test_no_value_is_most_of_those_who_are_given_nothing(seed: int, frequent: int) -> None:
    """One value is far too frequent; others are starred with it, as far as there are others."""
    newcomers, _ = draw_newcomers(seed, 80, 0.0)
    values = newcomers.value.copy()
    values[:frequent] = 0
    choice = choose(newcomers._replace(value=values), Signatures())
    left = Counter(values[choice.signature == UNDECIDED].tolist())
    if M <= left.total() < len(values):
        assert max(left.values()) * L <= left.total()
