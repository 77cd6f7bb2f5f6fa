"""Which values pass is told from the rows of signatures that end, and from chance nothing is told."""

from random import Random

import numpy as np
import pytest

from shoal.core.plan import Window, plan
from shoal.core.policy.policy import build_policy
from shoal.core.signatures.signature import Signatures
from shoal.core.signatures.turnover import classes_of, end_rates
from shoal.core.state import State
from tests.experiments.series import changes

VALUES, M = 24, 4
PASSING = frozenset(range(0, VALUES, 3))


def watch(rates: list[float], seed: int, signatures: int = 120, rounds: int = 5, releases: int = 6) -> Signatures:
    """Signatures of random values, whose rows end by these rates and are filled up again."""
    random, known = Random(seed), Signatures()
    numbers = [known.number(tuple(sorted(random.sample(range(VALUES), M)))) for _ in range(signatures)]
    rows = np.bincount(numbers, minlength=len(known)) * M * rounds
    for _ in range(releases):
        ended = [
            number for number in numbers for value in known.sets[number] for _ in range(rounds)
            if random.random() < rates[value]
        ]  # fmt: skip
        known.remember(rows, np.array(ended, dtype=np.int64))
    return known


@pytest.mark.parametrize("seed", range(5))
def test_values_that_pass_are_told_from_those_that_stay(seed: int) -> None:
    known = watch([0.6 if value in PASSING else 0.03 for value in range(VALUES)], seed)
    stay, passing = classes_of(np.arange(VALUES), known, M)
    assert set(passing.tolist()) == PASSING
    assert len(stay) + len(passing) == VALUES


@pytest.mark.parametrize("rate", [0.02, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_values_that_end_alike_are_one_class(seed: int, rate: float) -> None:
    (only,) = classes_of(np.arange(VALUES), watch([rate] * VALUES, seed), M)
    assert only.tolist() == list(range(VALUES))


def test_before_anything_ended_there_is_one_class() -> None:
    known = Signatures()
    assert len(classes_of(np.arange(VALUES), known, M)) == 1
    known.number((0, 1, 2, 3))
    known.remember(np.array([8]), np.zeros(0, dtype=np.int64))
    assert len(classes_of(np.arange(VALUES), known, M)) == 1


def test_a_class_that_could_make_no_signature_stays_with_the_others() -> None:
    known = watch([0.6 if value < M - 1 else 0.005 for value in range(VALUES)], 1)
    assert len(classes_of(np.arange(VALUES), known, M)) == 1


def test_rates_are_those_by_which_rows_end() -> None:
    rates = [0.6 if value in PASSING else 0.03 for value in range(VALUES)]
    known = watch(rates, 7, signatures=400, releases=20)
    found = end_rates(known.members[: len(known)], known.rows, known.ended, VALUES)
    assert np.abs(found - rates).max() < 0.05


def test_which_of_its_values_ended_does_not_matter() -> None:
    """Blind (S5): the classes follow from numbers that are the same whoever of a signature leaves."""
    document = {
        "table": "t",
        "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
        "sensitive": {"name": "d", "values": ["a", "b", "c", "d"]},
        "privacy": {"k": 2, "l": 2},
    }
    policy = build_policy(document, {}, b"x")
    people = {f"p{at}": ((at,), (at % M,)) for at in range(16)}
    seen = set()
    for leaver in ("p0", "p1", "p2"):
        state = State.empty(policy, b"secret")
        left = {person: record for person, record in people.items() if person != leaver}
        for number, window in enumerate((changes({}, people), changes(people, left)), start=1):
            state.apply(plan(state, Window(None, {0: window}), policy, number).change)
        seen.add((state.signatures.rows.tobytes(), state.signatures.ended.tobytes()))
        assert (state.signatures.rows.sum(), state.signatures.ended.sum()) == (16, 1)
    assert len(seen) == 1
