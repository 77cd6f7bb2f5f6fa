"""Which values pass is told from how many rows settled groups have left, and from chance nothing is told."""

from random import Random

import numpy as np
import pytest

from shoal.core.plan import Window, plan
from shoal.core.policy.policy import build_policy
from shoal.core.signatures.group import STAR, Groups
from shoal.core.signatures.signature import Signatures
from shoal.core.signatures.turnover import PASSES, STAYS, end_rates, kinds_of
from shoal.core.state import State
from tests.experiments.series import changes

VALUES, M, RELEASES = 24, 4, 7
PASSING = frozenset(range(0, VALUES, 3))


def watch(
    rates: list[float], seed: int, signatures: int = 120, rounds: int = 20
) -> tuple[Groups, Signatures, np.ndarray]:
    """Groups of random values formed in every release, and the rows that each has left in the last one."""
    random, known, groups, left = Random(seed), Signatures(), Groups(), [0]
    for formed in range(1, RELEASES):
        for _ in range(signatures // RELEASES):
            values = tuple(sorted(random.sample(range(VALUES), M)))
            groups.form(np.array([known.number(values)]), np.zeros(1, dtype=np.int64), formed, rounds)
            there = (RELEASES - 1 - formed) * rounds
            left.append(
                sum(random.random() < (1 - rates[v]) ** (there / rounds) for v in values for _ in range(rounds))
            )
    groups.form(np.array([STAR]), np.zeros(1, dtype=np.int64), 1)
    return groups, known, np.array([*left, 9])


def kinds(rates: list[float], seed: int, **how: int) -> list[int]:
    return kinds_of(*watch(rates, seed, **how), RELEASES, VALUES).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_values_that_pass_are_told_from_those_that_stay(seed: int) -> None:
    found = kinds([0.6 if value in PASSING else 0.03 for value in range(VALUES)], seed)
    passing = {value for value, kind in enumerate(found) if kind == PASSES}
    assert passing >= PASSING
    assert len(passing - PASSING) <= 1, "who shares signatures with them by chance"


@pytest.mark.parametrize("rate", [0.02, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_values_that_end_alike_are_of_one_kind(seed: int, rate: float) -> None:
    assert len(set(kinds([rate] * VALUES, seed))) == 1


def test_before_anything_ended_all_stay() -> None:
    assert kinds([0.0] * VALUES, 1) == [STAYS] * VALUES
    assert kinds_of(Groups(), Signatures(), np.zeros(1, dtype=np.int64), 1, VALUES).tolist() == [STAYS] * VALUES


def test_rates_are_those_by_which_rows_end() -> None:
    random, known = Random(7), Signatures()
    rates = [0.6 if value in PASSING else 0.03 for value in range(VALUES)]
    for _ in range(400):
        known.number(tuple(sorted(random.sample(range(VALUES), M))))
    rows = np.full(len(known), M * 100)
    ended = [sum(random.random() < rates[value] for value in values for _ in range(100)) for values in known.sets]
    assert np.abs(end_rates(known.members, rows, np.array(ended), VALUES) - rates).max() < 0.05


def test_which_of_its_values_ended_does_not_matter() -> None:
    """Blind (S5): the classes follow from numbers that are the same whoever of a signature leaves."""
    document = {
        "table": "t",
        "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
        "sensitive": {"name": "d", "values": ["a", "b", "c", "d"]},
        "privacy": {"k": 2, "l": 2, "batch": 4},
    }
    policy = build_policy(document, {}, b"x")
    people = {f"p{at}": ((at,), (at % M,)) for at in range(16)}
    seen = set()
    for leaver in ("p0", "p1", "p2"):
        state = State.empty(policy, b"secret")
        left = {person: record for person, record in people.items() if person != leaver}
        for number, window in enumerate((changes({}, people), changes(people, left)), start=1):
            state.apply(plan(state, Window(None, {0: window}), policy, number).change)
        state.apply(plan(state, Window(None, {0: {}}), policy, 3).change)
        rows = np.bincount(state.entries.group[state.entries.group > 0], minlength=state.groups.size)
        assert rows.sum() == 15
        seen.add(tuple(kinds_of(state.groups, state.signatures, rows, 3, M).tolist()))
    assert len(seen) == 1
