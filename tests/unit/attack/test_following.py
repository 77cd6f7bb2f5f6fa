"""Who knows which value follows which learns something from a lasting table, where it shows in what is published."""

from collections.abc import Mapping
from random import Random

from shoal.core.audit.attack.following import Followed, Following
from shoal.core.audit.attack.worlds import Token

M = 4


def signature(value: int) -> Mapping[Token, int]:
    """The block of a value, once each."""
    return {(one,): 1 for one in range(value // M * M, (value // M + 1) * M)}


def play(steps: list[dict[str, int]], is_shown: bool = True) -> Followed:
    following = Following()
    for table in steps:
        entries = [(signature(value), [(person, value)]) for person, value in table.items()] if is_shown else []
        following.see(entries, {person: frozenset((value,)) for person, value in table.items()})
    return following.result(2)


def lives(people: int, follow: float, seed: int) -> list[dict[str, int]]:
    """Two releases: a value of the first block is followed by its twin in the second, or by any of the second."""
    random = Random(seed)
    before = {f"p{n}": random.randrange(M) for n in range(people)}
    after = {
        person: value + M if random.random() < follow else random.randrange(M, 2 * M)
        for person, value in before.items()
    }
    return [before, after]


def test_where_values_follow_each_other_at_random_nobody_is_claimed_to_have_any() -> None:
    found = play(lives(400, 0.0, 1))
    assert (found.people, found.over) == (400, 0)


def test_where_one_value_goes_with_another_pairs_are_still_four_and_all_alike() -> None:
    """Each pair of twins is as likely as any other, so knowing that they go together tells neither."""
    assert play(lives(400, 1.0, 2)).over == 0


def test_where_the_pairs_of_a_signature_are_not_alike_claims_are_made_and_mostly_right() -> None:
    random = Random(3)
    before = {f"p{n}": random.randrange(M) for n in range(600)}
    # The first value is followed by one of the second block, and the others mostly by one of the third.
    after = {
        person: random.randrange(M) + (M if value == 0 or random.random() < 0.1 else 2 * M)
        for person, value in before.items()
    }
    found = play([before, after])
    assert found.over > 100
    assert 0.65 * found.over < found.right < 0.9 * found.over, "1/1.3 of those whose value is in the second block"


def test_nobodys_own_change_is_evidence_about_them() -> None:
    """Everybody changes in a way nobody else does."""
    steps = [{f"p{n}": n % M + 8 * n for n in range(30)}, {f"p{n}": 4 + n % 3 + 8 * n for n in range(30)}]
    assert play(steps) == Followed(30, 0, 0)


def test_values_that_were_never_shown_and_values_that_stayed_tell_nothing() -> None:
    assert play(lives(50, 1.0, 4), is_shown=False) == Followed(0, 0, 0)
    same = lives(50, 1.0, 5)[0]
    assert play([same, same, same]) == Followed(0, 0, 0)


def test_of_several_changes_at_once_nobody_knows_which_followed_which() -> None:
    following = Following()
    for held in ({"a": frozenset((0, 1))}, {"a": frozenset((4, 5))}):
        following.see([(signature(value), [("a", value)]) for value in held["a"]], held)
    assert following.result(2) == Followed(0, 0, 0)
