"""The attacks as the auditor plays them: on lasting tables that keep the rules, and on some that do not."""

from collections import Counter
from fractions import Fraction
from random import Random

import pytest

from shoal.core.audit.attack.insider import Changes, Insight, best_insider
from shoal.core.audit.attack.lasting_worlds import EntryGroup, Series, Spell
from shoal.core.audit.attack.persistence import Claims
from shoal.core.audit.attack.played import CLAIMS, WORLDS, Played, write_played
from shoal.core.audit.attack.shown import ShownGroup
from shoal.core.audit.attack.small_table import Enumerated
from shoal.core.audit.attack.worlds import Token
from tests.support.engines.lasting import Publisher
from tests.support.engines.lasting_desk import lasting_policy
from tests.support.engines.wrong_lasting import Generous, Lopsided
from tests.support.histories.lasting_life import live

HALF = Fraction(1, 2)


def play(kind: type[Publisher], seed: int, people: int) -> Played:
    rng, publisher = Random(seed), kind(lasting_policy(k=1))
    for _ in range(6):
        live(publisher, rng, people=people)
        publisher.release()
    private = publisher.desk.auditor.report(b"key").private
    assert private is not None
    return private.attacks.played


def count(kind: type[Publisher], seed: int, people: int = 13) -> Enumerated:
    found = play(kind, seed, people).worlds
    assert found is not None
    return found


def test_worlds_of_small_tables_with_guards_cliques_and_plain_values_tell_what_is_promised() -> None:
    counted = [count(Publisher, seed, 18) for seed in range(8)]
    # Generous shows more counterfeits than the policy allows, and so nearly everything; otherwise it is right.
    counted += [count(Generous, seed, 13) for seed in range(8)]
    assert all(found.is_kept(HALF) for found in counted)
    assert sum(found.worlds > 10_000 for found in counted) > 6
    assert {found.uneven.largest for found in counted} >= {HALF, Fraction(1, 4)}
    assert max(found.holder for found in counted) == HALF


def test_worlds_of_a_table_with_uneven_counts_are_found_out() -> None:
    assert not any(count(Lopsided, seed).is_kept(HALF) for seed in range(5))


def test_a_larger_table_is_not_counted_and_claims_in_it_stay_within_chance() -> None:
    played = play(Publisher, 1, people=60)
    assert played.worlds is None
    assert played.broken() == ()
    assert played.insider is not None
    assert played.insider.people > 20
    lines = list(write_played(played))
    assert any(line.strip().startswith("Promised") for line in lines)
    assert any("insider" in line for line in lines)


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
    found = count(Lopsided, 1)
    assert Played(True, HALF, (few(),), (few(),), worlds=found).broken() == (WORLDS,)


def signature(key: str, *rows: str, each: int = 1) -> ShownGroup:
    return ShownGroup(key, rows, Counter({(value,): each for value in range(4)}))


def test_of_a_single_change_an_insider_learns_a_leavers_value_and_of_three_much_less() -> None:
    changes = Changes(2)
    changes.see([signature("g", *"abcd")])
    assert changes.result() == Insight(Fraction(1, 3), 0, 4)
    changes.see([signature("g", *"abce")])
    assert changes.result() == Insight(Fraction(1), 2, 5), "e knows what d had, and d what e has"
    three = Changes(2)
    three.see([signature("g", *"abcdefghijkl", each=3)])
    three.see([signature("g", *"abcdefghixyz", each=3)])
    assert three.result() == Insight(Fraction(1, 3) + Fraction(2, 3) * Fraction(3, 11), 6, 15)


def test_a_carried_group_tells_insiders_nothing_new() -> None:
    changes = Changes(2)
    for _ in range(5):
        changes.see([signature("g", *"abcd")])
    assert changes.result() == Insight(Fraction(1, 3), 0, 4)


def test_a_counterfeit_in_the_group_may_be_who_left() -> None:
    changes = Changes(2)
    changes.see([signature("g", *"abc")])
    changes.see([signature("g", *"abe")])
    assert changes.result().largest == HALF + HALF * Fraction(1, 3)
    first, last = Spell("c", 1, 1), Spell("e", 2, 2)
    stay = [Spell(person, 1, 2) for person in "ab"]
    shown: dict[Token, int] = {(value,): 1 for value in range(4)}
    series = Series([[EntryGroup([*stay, first], shown)], [EntryGroup([*stay, last], shown)]], 2)
    truth: dict[Spell, Token] = {stay[0]: (0,), stay[1]: (1,), first: (2,), last: (2,)}
    assert best_insider(series, truth, 2).largest == HALF, "counted exactly it is less"
