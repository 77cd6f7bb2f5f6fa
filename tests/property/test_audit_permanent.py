"""Permanent values: random histories of a small publisher beside the auditor, and the auditor beside brute force."""

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from random import Random
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.audit.permanent.holders import Drawn, HolderSets
from tests.support.engines.audited import redrawn
from tests.support.engines.scarcity import HIV, Draft, histories, scarce_policy
from tests.support.judges.formations import formations, risk

RELEASES = 6
OVER = "G3: somebody is in more than 1/l of the smallest holder sets that fit everything published"
EXCLUDED = "G3: somebody who knows the participation of K people can exclude all but fewer than l as a holder"


@pytest.mark.parametrize("l", [2, 3])
@pytest.mark.parametrize("lives", [{}, {"death": 0.2, "spares": 2}, {"away": 0.4, "spares": 0}, {"illness": 0.2}])
def test_a_publisher_that_keeps_the_rules_of_all_keeps_every_promise(l: int, lives: dict[str, Any]) -> None:
    shown = Counter[int]()
    for clinic in histories(scarce_policy(l, "all"), 25, **lives):
        clinic.run(RELEASES)
        assert clinic.findings() == set(), clinic.seed
        permanent = redrawn(clinic.desk.auditor).permanent
        shown.update(alibi.fewest for alibi in permanent.alibis.of.values())
        for component in permanent.components:
            if not component.is_starred:
                assert max(component.risks().values(), default=Fraction(0)) <= Fraction(1, l)
    assert min(shown) >= l
    assert shown.total() > 25


@pytest.mark.parametrize("known", [0, 1, 3])
def test_a_publisher_that_replaces_decoys_keeps_its_promise_with_one_more_absent_than_are_known(known: int) -> None:
    """Bu's K-buddy condition, found again by the attack: with K absent people, a holder who leaves is exposed."""
    for clinic in histories(scarce_policy(2, known), 40, death=0.1, bystanders=known + 1):
        assert clinic.run(RELEASES).findings() == set(), clinic.seed
    found = Counter[str]()
    for clinic in histories(scarce_policy(2, known), 60, death=0.1, bystanders=known):
        found.update(clinic.run(RELEASES).findings())
    assert found.keys() == {EXCLUDED}


def test_new_cliques_made_of_earlier_candidates_exceed_1_in_l_and_are_found_out() -> None:
    """The three rules of `all` alone do not keep the share: who was in a group with the value may not join anew."""
    found = Counter[str]()
    for clinic in histories(scarce_policy(2, "all"), 60, spares=0, illness=0.15, is_strict=False):
        found.update(clinic.run(RELEASES).findings())
    assert found.keys() == {OVER}


# Brute force beside the auditor.

Series = list[list[tuple[tuple[str, ...], int, int]]]  # releases of groups: people, times shown, "*"


@st.composite
def series(draw: Any, stars: bool) -> Series:
    """Releases of up to five people, true of some history, in which anyone may come, go and fall ill."""
    rng = Random(draw(st.integers(0, 10**6)))
    people = [f"p{i}" for i in range(rng.randint(2, 5))]
    holders: set[str] = set()
    found: Series = []
    for _ in range(rng.randint(1, 3)):
        holders |= {person for person in people if rng.random() < 0.2}
        there = [person for person in people if rng.random() < 0.8]
        rng.shuffle(there)
        release = []
        while there:
            group = tuple(there.pop() for _ in range(min(len(there), rng.randint(1, 3))))
            true = sum(person in holders for person in group)
            hidden = rng.randint(0, true) if stars else 0
            release.append((group, true - hidden, hidden + (rng.randint(0, 1) if stars else 0)))
        found.append(release)
    return found


def fitting_sets(releases: Series) -> set[frozenset[str]]:
    """Every holder set that fits, by trying every time at which everyone could have come to hold the value."""
    people = sorted({person for release in releases for group, _, _ in release for person in group})
    found = set()
    for times in product(range(len(releases) + 1), repeat=len(people)):
        since = dict(zip(people, times, strict=True))
        fits = all(
            shown <= sum(since[person] <= number for person in group) <= shown + stars
            for number, release in enumerate(releases)
            for group, shown, stars in release
        )
        if fits:
            last = {p: n for n, release in enumerate(releases) for group, _, _ in release for p in group}
            found.add(frozenset(person for person in people if since[person] <= last[person]))
    return found


@settings(max_examples=150, deadline=None)
@given(releases=st.one_of(series(stars=False), series(stars=True)))
def test_holder_sets_are_those_that_trying_everything_finds(releases: Series) -> None:
    sets = HolderSets()
    for release in releases:
        sets.see(Drawn(*group) for group in release)
    together = {frozenset[str]()}
    for component in sets.components:
        assert component.sets is not None
        together = {one | other for one in together for other in component.sets}
    assert together == fitting_sets(releases)


@settings(max_examples=60, deadline=None)
@given(releases=series(stars=False), l=st.integers(2, 3))
def test_over_formations_nobody_is_ever_above_1_in_l_if_one_fits_at_all(releases: Series, l: int) -> None:
    found = formations([[(people, shown) for people, shown, _ in release] for release in releases], l)
    people = {person for release in releases for group, _, _ in release for person in group}
    assert not found or all(risk(found, person) <= Fraction(1, l) for person in people)


@pytest.mark.parametrize("participation", ["all", 0])
def test_every_alibi_is_one_exchanging_two_people_fits_everything_published(
    participation: Literal["all"] | int,
) -> None:
    count = 0
    for clinic in histories(scarce_policy(2, participation), 40, away=0.3, illness=0.15, is_strict=False):
        drafts: list[tuple[Draft, frozenset[str]]] = []
        for _ in range(RELEASES):
            clinic.live()
            drafts.append((clinic.publish(), frozenset(clinic.holders)))
        for (_, holder), alibi in redrawn(clinic.desk.auditor).permanent.alibis.of.items():
            for other in alibi.left - {holder}:
                count += 1
                assert can_be_exchanged(drafts[alibi.first - 1 :], holder, other), (clinic.seed, holder, other)
    assert count > 30


def can_be_exchanged(drafts: Sequence[tuple[Draft, frozenset[str]]], holder: str, other: str) -> bool:
    for draft, holders in drafts:
        supposed = holders - {holder} | {other}
        for batch in draft.batches:
            count, shown = len(supposed & set(batch.people)), len(batch.shown)
            if not shown <= count <= shown + len(batch.stars):
                return False
    return True


# What is left of Theorem 1 for somebody who knows one person's participation, if participations are worlds too.


def participation_worlds(people: int, rows: int, releases: int) -> Iterator[tuple[int, int]]:
    """(holder, number of worlds) with one holder always shown, person 0 known to be always there."""
    always = list(combinations(range(people), rows))
    for holder in range(people):
        able = [chosen for chosen in always if holder in chosen and 0 in chosen]
        yield holder, len(able) ** releases


@pytest.mark.parametrize(("releases", "expected"), [(1, Fraction(1, 3)), (2, Fraction(5, 9)), (3, Fraction(25, 33))])
def test_someone_known_to_be_always_there_is_likelier_the_holder_if_participations_are_counted(
    releases: int, expected: Fraction
) -> None:
    """Six registered, three published each time, HIV always shown once: nobody is excluded, and yet 1/2 is exceeded."""
    worlds = dict(participation_worlds(6, 3, releases))
    assert Fraction(worlds[0], sum(worlds.values())) == expected
    assert all(worlds.values())


def test_the_publisher_shows_the_value_and_hides_it_often_enough_to_be_worth_auditing() -> None:
    seen = Counter[str]()
    for clinic in histories(scarce_policy(2, "all"), 20, away=0.3):
        for _ in range(RELEASES):
            clinic.live()
            draft = clinic.publish()
            seen.update(HIV for batch in draft.batches for _ in batch.shown)
            seen.update("*" for batch in draft.batches for _ in batch.stars)
            seen["broken"] += len(draft.broken)
    assert min(seen[HIV], seen["*"], seen["broken"]) > 20
