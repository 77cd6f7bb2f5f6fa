"""Rounds newcomer by newcomer: signatures in use come first, and what somebody shuns is in none of theirs."""

import numpy as np

from shoal.core.signatures.newcomers import UNDECIDED, Newcomers
from shoal.core.signatures.seats import seat
from shoal.core.signatures.signature import Signatures

M = 4


def run(
    values: list[int],
    known: Signatures,
    shunned: dict[int, set[int]] | None = None,
    siblings: dict[int, list[int]] | None = None,
) -> list[int]:
    size = len(values)
    draws = np.arange(size, dtype=np.uint64)
    newcomers = Newcomers(np.array(values), np.zeros(size, dtype=np.int64), draws, shunned or {}, siblings or {})
    found = np.full(size, UNDECIDED, dtype=np.int64)
    seat(newcomers, np.arange(size), known, np.arange(len(known)), M, found)
    return [int(number) for number in found]


def test_a_signature_in_use_comes_before_a_new_one() -> None:
    known = Signatures()
    number = known.number((0, 2, 4, 6))
    assert run([0, 1, 2, 3, 4, 5, 6, 7], known) == [number, 1, number, 1, number, 1, number, 1]
    assert known.sets == [(0, 2, 4, 6), (1, 3, 5, 7)]


def test_nobody_is_seated_with_what_they_shun() -> None:
    known = Signatures()
    number = known.number((0, 1, 2, 3))
    found = run([0, 1, 2, 3, 4], known, {0: {1}})
    assert number not in found
    assert known.sets[found[0]] == (0, 2, 3, 4)
    assert found[1] == UNDECIDED


def test_two_values_of_one_person_get_signatures_that_have_nothing_in_common() -> None:
    known = Signatures()
    values = [0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8]
    found = run(values, known, {0: {4}, 7: {0}}, {0: [7], 7: [0]})
    assert [known.sets[found[at]] for at in (0, 7)] == [(0, 1, 2, 3), (4, 6, 7, 8)]


def test_many_rounds_of_one_signature_are_made_rather_than_many_signatures() -> None:
    known = Signatures()
    assert UNDECIDED not in run([value for value in range(M) for _ in range(9)], known)
    assert known.sets == [(0, 1, 2, 3)]


def test_too_few_values_make_no_round() -> None:
    known = Signatures()
    assert run([0, 0, 1, 2], known) == [UNDECIDED] * 4
    assert not known.sets
