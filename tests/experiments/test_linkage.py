"""The linkage attack finds out what follows from the releases, and nothing that does not."""

import random
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import product

from tests.experiments.linkage import NEVER, Adversary, Clue, Clues

People = Iterable[int]


def group(people: People, shown: int, stars: int = 0) -> Clue:
    """A group that somebody sees who knows who is in it."""
    return Clue(frozenset(people), frozenset(people), shown, shown + stars)


def told(releases: Sequence[tuple[Sequence[Clue], People]]) -> Adversary:
    adversary = Adversary()
    for number, (groups, cleared) in enumerate(releases, start=1):
        adversary.see(number, Clues(groups, frozenset(cleared)))
    return adversary


def test_a_person_alone_in_all_groups_that_show_the_value_is_found_out_when_the_others_are_seen_without_it() -> None:
    first = [group((1, 2, 3), 1)]
    assert told([(first, ())]).risk(1) == Fraction(1, 3)
    adversary = told([(first, ()), ([group((1, 4, 5), 1)], (2, 3))])
    assert adversary.risk(1) == 1
    assert [adversary.risk(person) for person in (2, 3, 4, 5)] == [0] * 4


def test_a_person_seen_without_the_value_may_fall_ill_later_and_was_not_ill_before() -> None:
    later = told([([], (1, 2)), ([group((1, 2), 1)], ())])
    assert later.risk(1) == Fraction(1, 2)
    earlier = told([([group((1, 2), 1)], ()), ([], (2,))])
    assert [earlier.risk(1), earlier.risk(2)] == [1, 0]


def test_somebody_who_is_away_is_not_excluded() -> None:
    assert told([([group((1, 2), 1)], ()), ([group((1, 3), 1)], ())]).risk(1) == Fraction(1, 2)


def test_a_star_excludes_nobody_and_a_counterfeit_proves_nothing() -> None:
    assert told([([group((1, 2), 1)], ()), ([group((2, 3), 0, stars=1)], (1,))]).risk(2) == 1
    assert told([([group((1, 2), 1)], ()), ([group((1, 3), 0, 1), group((2, 4), 0, 1)], ())]).risk(1) == Fraction(1, 2)
    assert told([([Clue(frozenset((1, 2)), frozenset((1, 2)), 0, 1)], ()), ([], (2,))]).risk(1) == 0


def test_what_is_known_of_one_group_tells_about_the_next() -> None:
    """1 is found out in the second release, which clears 4 and 5 then, so that 6 held the value in the first."""
    releases = [([group((1, 2), 1), group((4, 6), 1)], ()), ([group((1, 4, 5), 1)], (2,))]
    adversary = told(releases)
    assert [adversary.risk(person) for person in (1, 4, 5, 6)] == [1, 0, 0, 1]


def six(third: Sequence[Sequence[int]]) -> Adversary:
    series = [((1, 2, 3), (4, 5, 6)), ((1, 4, 5), (2, 3, 6)), third]
    return told([([group(people, 1) for people in groups], ()) for groups in series])


def test_bus_p4_is_exposed_under_3_invariance_and_not_if_groups_keep_to_the_cohorts() -> None:
    exposed = six(((1, 4, 6), (2, 3, 5)))
    assert exposed.risk(4) == 1
    assert exposed.risk(1) == exposed.risk(5) == exposed.risk(6) == 0
    kept = six(((1, 4, 3), (2, 6, 5)))
    assert {kept.risk(person) for person in range(1, 7)} == {Fraction(1, 3)}


def test_nothing_is_concluded_that_is_not_so_in_every_world_that_fits() -> None:
    """On random histories, beside everything that could have happened, one by one."""
    draw, found = random.Random(5), 0
    for _ in range(120):
        releases, since = a_history(draw)
        adversary = told(releases)
        worlds = [world for world in product(range(1, 5), repeat=5) if fits(releases, world)]
        assert tuple(since.get(person, 4) for person in range(5)) in worlds
        for world in worlds:
            adversary.check_against({person: date for person, date in enumerate(world) if date < 4})
        found += sum(adversary.risk(person) == 1 for person in range(5))
    assert found > 50


def test_almost_everyone_who_is_a_holder_in_every_world_is_found_out() -> None:
    draw, certain, found = random.Random(6), 0, 0
    for _ in range(60):
        releases, _ = a_history(draw)
        adversary = told(releases)
        worlds = [world for world in product(range(1, 5), repeat=5) if fits(releases, world)]
        holders = [person for person in range(5) if max(world[person] for world in worlds) < 4]
        certain += len(holders)
        found += sum(adversary.risk(person) == 1 for person in holders)
    assert certain > 20
    assert found >= 0.9 * certain


def a_history(draw: random.Random) -> tuple[list[tuple[list[Clue], list[int]]], dict[int, int]]:
    """Five people, three releases: who falls ill when, who is there, and in which of two groups."""
    since = {person: at for person in range(5) if (at := draw.choice((1, 1, 2, 3, NEVER, NEVER))) != NEVER}
    releases = []
    for number in range(1, 4):
        there = [person for person in range(5) if draw.random() < 0.8]
        draw.shuffle(there)
        middle = draw.randint(0, len(there))
        groups, cleared = [], []
        for people in (there[:middle], there[middle:]):
            ill = sum(since.get(person, NEVER) <= number for person in people)
            stars = draw.choice((0, 0, 0, 1))
            hidden = min(stars, ill)
            if ill or stars:
                groups.append(group(people, ill - hidden, stars))
            else:
                cleared += people
        releases.append((groups, cleared))
    return releases, since


def fits(releases: Sequence[tuple[Sequence[Clue], People]], world: Sequence[int]) -> bool:
    """Whether everyone may have fallen ill when a world says; 4 is never."""
    for number, (groups, cleared) in enumerate(releases, start=1):
        if any(world[person] <= number for person in cleared):
            return False
        for clue in groups:
            if not clue.least <= sum(world[person] <= number for person in clue.may) <= clue.most:
                return False
    return True
