"""What may be shown of one person: the rules of docs/design.md, "Values that last", one at a time."""

from collections.abc import Sequence

import pytest

from shoal.core.events.guard import EMPTY, Guard
from shoal.core.policy.policy import Policy, build_policy
from shoal.core.signatures.entries import BARRED, CURRENT, ENDED, HELD, NO_SIGNATURE, PLAIN, STARRED
from shoal.core.signatures.verdict import SHOW_NEW, SHOW_PLAIN, SHOW_STAR, Beside, Held, Judge, most_shown

SETS = [(0, 1, 2, 3), (4, 5, 6, 7)]
SEEN = HELD | CURRENT


def policy(values: int = 16, *, l: int = 2, permanent: int = 0, open_values: int = 0, **privacy: int) -> Policy:
    labels = [f"v{leaf}" for leaf in range(values)]
    half = "".join(f"{label};{'low' if leaf < values // 2 else 'high'};*\n" for leaf, label in enumerate(labels))
    document = {
        "table": "t",
        "attributes": {"age": {"type": "int", "min": 0, "max": 9}},
        "sensitive": {
            "name": "s",
            "hierarchy": "s.csv",
            "open": labels[values - open_values :],
            "permanent": labels[:permanent],
        },
        "privacy": {"k": 2, "l": l, **privacy},
    }
    return build_policy(document, {"s.csv": half.encode()}, b"")


def decide(mine: Sequence[tuple[int, int, int]], guard: Guard | None = None, **options: int) -> list[int]:
    """How each (value, signature, flags) is shown."""
    held = [Held(entry, value, signature, flags, entry) for entry, (value, signature, flags) in enumerate(mine)]
    shown = Judge(policy(**options), SETS).decide(held, guard).shown
    return [shown[entry] for entry in sorted(shown)]


def test_somebody_new_is_given_a_signature() -> None:
    assert decide([(9, NO_SIGNATURE, HELD)]) == [SHOW_NEW]


def test_what_was_shown_under_a_signature_goes_on_being_shown() -> None:
    assert decide([(1, 0, SEEN)]) == [0]


def test_a_value_that_lies_in_a_signature_of_theirs_takes_it() -> None:
    assert decide([(1, 0, 0), (2, NO_SIGNATURE, HELD)]) == [0]


def test_while_a_signature_is_full_nothing_new_is_shown_wherever_it_lies() -> None:
    full = [(0, 0, 0), (1, 0, 0)]
    assert decide([*full, (2, NO_SIGNATURE, HELD)]) == [SHOW_STAR]
    assert decide([*full, (9, NO_SIGNATURE, HELD)]) == [SHOW_STAR]
    assert decide([*full, (1, 0, HELD)][1:]) == [0]


def test_while_too_few_values_are_left_for_a_signature_nothing_new_is_shown() -> None:
    assert decide([(0, 0, SEEN), (4, NO_SIGNATURE, HELD)], values=7) == [0, SHOW_STAR]
    assert decide([(0, 0, SEEN), (4, NO_SIGNATURE, HELD)], values=8) == [0, SHOW_NEW]


def test_of_several_only_as_many_are_shown_as_are_safe_wherever_they_lie() -> None:
    """A signature of four with one value shown has room for one more, so one is shown, whichever they are."""
    others = [(8, NO_SIGNATURE, HELD), (9, NO_SIGNATURE, HELD), (10, NO_SIGNATURE, HELD)]
    assert decide([(0, 0, SEEN), *others]) == [0, SHOW_NEW, SHOW_STAR, SHOW_STAR]
    assert decide(others) == [SHOW_NEW, SHOW_NEW, SHOW_NEW]


def test_what_was_starred_before_it_was_shown_stays_so() -> None:
    assert decide([(9, NO_SIGNATURE, HELD | STARRED)]) == [SHOW_STAR]


def test_what_others_tell_apart_is_never_shown_again() -> None:
    assert decide([(1, 0, BARRED), (1, 0, SEEN | BARRED)][1:]) == [SHOW_STAR]
    assert decide([(0, 0, BARRED), (1, 0, SEEN)]) == [SHOW_STAR]


def test_open_values_are_shown_as_they_are() -> None:
    assert decide([(15, NO_SIGNATURE, HELD), (3, NO_SIGNATURE, HELD)], open_values=2) == [SHOW_PLAIN, SHOW_NEW]


class TestGuards:
    def test_the_empty_guard_shows_values_as_they_are_but_for_those_in_a_signature(self) -> None:
        empty = Guard(EMPTY)
        assert decide([(9, NO_SIGNATURE, HELD)], empty) == [SHOW_PLAIN]
        assert decide([(1, 0, 0), (2, NO_SIGNATURE, HELD)], empty) == [0]

    def test_a_permanent_value_is_not_lifted_by_it(self) -> None:
        assert decide([(1, NO_SIGNATURE, HELD)], Guard(EMPTY), permanent=5) == [SHOW_NEW]

    def test_what_was_plain_is_starred_without_it_and_so_is_all_that_is_new(self) -> None:
        assert decide([(9, PLAIN, SEEN), (1, NO_SIGNATURE, HELD)]) == [SHOW_STAR, SHOW_STAR]
        assert decide([(9, PLAIN, SEEN)], Guard(EMPTY)) == [SHOW_PLAIN]

    def test_a_bound_below_one_in_m_stars_everything(self) -> None:
        low = policy().sensitive.hierarchy.node_of["low"]
        assert decide([(1, 0, SEEN)], Guard(low, 0.2)) == [SHOW_STAR]

    def test_a_guard_over_an_open_value_stars_everything(self) -> None:
        high = policy().sensitive.hierarchy.node_of["high"]
        assert decide([(1, 0, SEEN)], Guard(high), open_values=1) == [SHOW_STAR]

    def test_a_guard_named_later_stars_the_signatures_that_meet_it_if_too_much_was_shown(self) -> None:
        """All four values of the first signature lie under the guard: 4/4 is over 1/2."""
        low = policy().sensitive.hierarchy.node_of["low"]
        assert decide([(1, 0, SEEN), (9, NO_SIGNATURE, HELD)], Guard(low)) == [SHOW_STAR, SHOW_STAR]

    def test_within_the_bound_one_more_spell_is_shown_only_if_it_fits_wherever_it_lies(self) -> None:
        node = policy().sensitive.hierarchy.node_of["v1"]
        assert decide([(0, 0, SEEN), (9, NO_SIGNATURE, HELD)], Guard(node)) == [0, SHOW_NEW]
        assert decide([(0, 0, SEEN), (9, NO_SIGNATURE, HELD)], Guard(node, 0.3)) == [0, SHOW_STAR]

    def test_a_value_that_comes_back_is_one_more_spell(self) -> None:
        node = policy().sensitive.hierarchy.node_of["v1"]
        assert decide([(0, 0, HELD)], Guard(node)) == [0]
        assert decide([(0, 0, HELD)], Guard(node, 0.3)) == [SHOW_STAR]
        assert decide([(0, 0, HELD)]) == [0]


def test_beside_others_only_the_single_value_that_somebody_ever_held_is_shown() -> None:
    new, other = Held(0, 9, NO_SIGNATURE, HELD, 0), Held(1, 12, NO_SIGNATURE, HELD, 1)
    judge, inside = Judge(policy(), SETS), Beside(is_inside=True)
    assert judge.decide([new], None, inside).shown == {0: SHOW_NEW}
    assert judge.decide([new], None, inside._replace(may_be_new=False)).shown == {0: SHOW_STAR}
    assert judge.decide([new], Guard(policy().sensitive.hierarchy.node_of["v1"]), inside).shown == {0: SHOW_STAR}
    assert judge.decide([new, other], None, inside).shown == {0: SHOW_STAR, 1: SHOW_STAR}
    assert judge.decide([new, other._replace(flags=ENDED)], None, inside).shown == {0: SHOW_STAR}
    assert judge.decide([new, Held(1, 1, 0, SEEN, 1)], None, inside).shown == {0: SHOW_STAR, 1: 0}


class TestInsiders:
    def test_a_signature_may_show_fewer_values_if_some_of_them_are_known(self) -> None:
        assert [most_shown(m, 2, insiders) for m, insiders in ((4, 0), (5, 0), (6, 0), (5, 1), (6, 1), (7, 1))] == [
            2, 2, 3, 2, 2, 3,
        ]  # fmt: skip
        assert [most_shown(m, 2.5, 0) for m in (4, 5, 7, 8)] == [1, 2, 2, 3]

    @pytest.mark.parametrize(("insiders", "expected"), [(0, 0), (1, SHOW_STAR)])
    def test_a_third_value_of_six_is_safe_only_against_somebody_who_knows_nobody(
        self, insiders: int, expected: int
    ) -> None:
        sets = [(0, 1, 2, 3, 4, 5)]
        judge = Judge(policy(20, insiders=insiders), sets)
        mine = [Held(0, 0, 0, 0, 0), Held(1, 1, 0, 0, 1), Held(2, 2, NO_SIGNATURE, HELD, 2)]
        assert judge.decide(mine, None).shown == {2: expected}

    def test_a_guard_counts_the_values_that_are_left_to_choose_from(self) -> None:
        """One value of five is a quarter for somebody who knows one of them, and a fifth for everybody else."""
        sets = [(0, 1, 2, 3, 4)]
        for insiders, expected in ((0, SHOW_NEW), (1, SHOW_STAR)):
            judge = Judge(policy(20, signature=5, insiders=insiders), sets)
            guard = Guard(judge.policy.sensitive.hierarchy.node_of["v1"], 0.4)
            mine = [Held(0, 0, 0, SEEN, 0), Held(1, 9, NO_SIGNATURE, HELD, 1)]
            assert judge.decide(mine, guard).shown[1] == expected

    def test_a_bound_that_an_insider_could_pass_stars_everything(self) -> None:
        for insiders, expected in ((0, SHOW_NEW), (1, SHOW_STAR)):
            judge = Judge(policy(20, signature=5, insiders=insiders), [])
            guard = Guard(judge.policy.sensitive.hierarchy.node_of["v1"], 0.2)
            assert judge.decide([Held(0, 9, NO_SIGNATURE, HELD, 0)], guard).shown == {0: expected}


def test_a_value_that_found_no_round_where_its_person_moved_stays_starred_for_its_spell() -> None:
    assert decide([(1, 0, HELD | STARRED)]) == [SHOW_STAR]
    assert decide([(1, 0, HELD)]) == [0]
