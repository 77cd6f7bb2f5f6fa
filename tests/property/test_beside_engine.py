"""The engine beside other publishers on small tables of which all worlds are counted."""

from collections.abc import Iterator
from random import Random

import pytest

from shoal.core.signatures.blocks import Neighbours
from shoal.core.signatures.budget import Budget
from tests.support.beside.published import Published, publish, ward_policy
from tests.support.beside.tables import Ward, draw_ward
from tests.support.beside.worlds import judge

RUNS = 300
LIKE_MANY = 12  # rows of others up to which worlds are counted


def draw_wards(
    seeds: range, others: tuple[int, ...] = (1, 1, 2), *, several: bool = False
) -> Iterator[tuple[int, Ward]]:
    for seed in seeds:
        random = Random(seed)
        ward = draw_ward(random, random.choice(others), moving=True, several=several, people=(5, 10))
        if random.random() < 0.3:
            ward = even_out(random, ward)
        if all(ward.others) and sum(sum(e.values()) for e in ward.others) <= LIKE_MANY:
            yield seed, ward


def even_out(random: Random, ward: Ward) -> Ward:
    """Strangers make the others' counts alike for half of the values, or for all."""
    others = []
    for e in ward.others:
        values = range(random.choice([0, ward.values // 2]), ward.values)
        top = max((e.get(value, 0) for value in values), default=0)
        others.append(dict(e) | {value: top for value in values if top})
    return ward._replace(others=others)


def count_broken(wards: Iterator[tuple[int, Ward]], *, is_late: bool, l: int = 2, alpha: int = 2) -> tuple[int, int]:
    """In how many of the tables that show anybody inside more is told than promised, and how many these are.

    Late publications tell what they tell about groups that are there; whoever stays in them must not be among those.
    """
    broken = tables = 0
    for seed, ward in wards:
        made = publish(Random(seed), ward, ward_policy(ward.values, l, alpha), is_late=is_late)
        inside = {one for one, places in ward.places.items() if places}
        if made.shown & inside:
            tables += 1
            broken += bool(told(made, l, alpha) & (made.shown & inside if is_late else ward.held.keys()))
    return broken, tables


def told(made: Published, l: int, alpha: int) -> frozenset[str]:
    found = judge(made.table, l, alpha)
    return found.over | found.few


@pytest.mark.parametrize("several", [False, True])
def test_nobody_beside_others_is_told_more_of_than_promised(several: bool) -> None:
    broken, tables = count_broken(draw_wards(range(RUNS), several=several), is_late=False)
    assert (broken, tables > RUNS // 20) == (0, True)


def test_whoever_stays_when_others_publish_later_is_told_no_more_of_than_promised() -> None:
    broken, tables = count_broken(draw_wards(range(RUNS)), is_late=True)
    assert (broken, tables > RUNS // 20) == (0, True)


def test_an_engine_that_overspends_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget, "holds", lambda self: True)
    broken, tables = count_broken(draw_wards(range(RUNS)), is_late=False)
    assert broken > tables // 10


def test_an_engine_that_lets_everything_stay_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Neighbours, "judge_signatures", lambda self: None)
    broken, tables = count_broken(draw_wards(range(RUNS)), is_late=True)
    assert broken > tables // 20
