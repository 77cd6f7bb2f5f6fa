"""The attacks as the auditor plays them: on lasting tables that keep the rules, and on some that do not."""

from fractions import Fraction
from random import Random

import pytest

from shoal.core.audit.attack.neighbours import Insight
from shoal.core.audit.attack.persistence import Claims
from shoal.core.audit.attack.played import CLAIMS, INSIDERS, WORLDS, Played, write_played
from shoal.core.audit.attack.small_table import Enumerated
from tests.support.engines.lasting import Publisher
from tests.support.engines.lasting_desk import lasting_policy
from tests.support.engines.wrong_lasting import Lopsided
from tests.support.histories.lasting_life import live

HALF = Fraction(1, 2)


def play(kind: type[Publisher], seed: int, people: int, releases: int = 6) -> Played:
    rng, publisher = Random(seed), kind(lasting_policy(k=1, batch=4))
    for _ in range(releases):
        live(publisher, rng, people=people, change=0.3)
        publisher.release()
    private = publisher.desk.auditor.report(b"key").private
    assert private is not None
    return private.attacks.played


def count(kind: type[Publisher], seed: int) -> Enumerated:
    found = play(kind, seed, people=20, releases=12).worlds
    assert found is not None
    return found


def test_worlds_of_small_tables_with_guards_cliques_and_plain_values_tell_what_is_promised() -> None:
    counted = [count(Publisher, seed) for seed in range(8)]
    assert all(found.is_kept(HALF, 0) for found in counted)
    assert min(found.worlds for found in counted) >= 24
    assert {found.uneven.largest for found in counted} == {HALF, Fraction(1, 4)}
    assert max(found.holder for found in counted) == HALF
    assert max(found.insiders[0].largest for found in counted) > HALF, "two values under one signature of four"


def test_worlds_of_a_table_with_uneven_groups_are_found_out() -> None:
    assert not any(count(Lopsided, seed).is_kept(HALF, 0) for seed in range(3))


def test_a_larger_table_is_not_counted_and_claims_in_it_stay_within_chance() -> None:
    played = play(Publisher, 1, people=120)
    assert played.worlds is None
    assert played.broken() == ()
    assert played.insider is not None
    assert played.insider.people > 20
    assert played.lasted is not None
    assert played.lasted.people == played.insider.people
    lines = list(write_played(played))
    assert any(line.strip().startswith("Promised") for line in lines)
    assert any("neighbour" in line for line in lines)
    assert any("how long each value lasts" in line for line in lines)


def few(stay: float = 0.95, over: int = 100, right: int = 40) -> Claims:
    return Claims(stay, 500, over, right, over // 2, right // 2)


@pytest.mark.parametrize(
    ("is_promised", "claims", "expected"),
    [(True, few(), ()), (True, few(right=90), (CLAIMS,)), (False, few(right=90), ())],
)
def test_claims_that_are_right_too_often_break_the_promise_of_a_lasting_table(
    is_promised: bool, claims: Claims, expected: tuple[str, ...]
) -> None:
    played = Played(is_promised, HALF, (few(0.5), claims), (few(), few()))
    assert played.broken() == expected
    assert played.as_json()["here"][1]["within_bound"] is (claims.over_right < 90)


def test_a_redrawn_table_says_that_nothing_is_promised() -> None:
    lines = list(write_played(Played(False, HALF, (few(),), (few(),))))
    assert "Nothing is promised" in lines[-1]
    assert "over 0.5: 40 of 100, over 0.9: 20 of 50" in lines[2]


def test_worlds_that_tell_too_much_break_the_promise() -> None:
    found = next(one for seed in range(5) if not (one := count(Lopsided, seed)).is_kept(HALF, 0))
    assert Played(True, HALF, (few(),), (few(),), worlds=found).broken() == (WORLDS,)


@pytest.mark.parametrize(
    ("insiders", "known", "expected"), [(0, 1, ()), (1, 1, (INSIDERS,)), (1, 2, ()), (2, 2, (INSIDERS,))]
)
def test_what_insiders_learn_is_a_promise_for_as_many_as_the_policy_says(
    insiders: int, known: int, expected: tuple[str, ...]
) -> None:
    told = Insight(known, Fraction(2, 3), 4, 40)
    assert Played(True, HALF, (few(),), (few(),), insider=told, insiders=insiders).broken() == expected
    told = Insight(known, HALF, 0, 40)
    assert Played(True, HALF, (few(),), (few(),), insider=told, insiders=insiders).broken() == ()
