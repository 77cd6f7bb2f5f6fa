"""Permanent values on random histories: absences, returns, deaths, moves, new holders; and engines that are wrong."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.core.cohort.clique import NEVER, Clique
from shoal.core.groups.affordability import Claims, Standing
from shoal.core.plan import Plan
from shoal.core.policy.policy import Policy
from tests.support.engines.series import DISEASES, clinic_policy, clinic_rules
from tests.support.engines.wrong_cohorts import crowd_holders, leave_decoys, renew_cliques, share_stars, tear_cliques
from tests.support.histories.population import Population, Series, hidden_in
from tests.support.judges.cohorts import ScarcityJudge
from tests.support.judges.series import Judge

RELEASES = 7


def _policy(rng: random.Random, permanent: tuple[str, ...], participation: Any) -> Policy:
    return clinic_policy(
        k=rng.choice([1, 2, 3]),
        l=rng.choice([2, 3]),
        headroom=1,
        participation=participation,
        permanent=list(permanent),
        strategy={"name": "adaptive", "releases": rng.choice([1, 3])},
    )


class _History:
    """A random series: `run` yields each release with the population at that moment."""

    def __init__(self, seed: int, participation: Any = None) -> None:
        self.rng = rng = random.Random(seed)
        self.permanent = rng.choice([("hiv",), ("hiv", "lupus")])
        self.policy = _policy(rng, self.permanent, rng.choice([0, 0, 1]) if participation is None else participation)
        self.people = Population(rng, tuple(v for v in DISEASES if v not in self.permanent), self.permanent)
        self.series = Series(self.policy)

    def run(self) -> Iterator[Plan]:
        first = self.rng.choice([5, 15, 40])
        events = [*self.people.register(self.rng.choice([0, first])), *self.people.arrive(first)]
        for _ in range(RELEASES):
            yield self.series.release(events)
            events = list(self.people.churn(self.rng.choice([0, 3, 8])))


def _verdicts(history: _History) -> list[str]:
    scarcity = ScarcityJudge(int(history.policy.l), frozenset(history.permanent), history.policy.participation == "all")
    judge, people = Judge(clinic_rules(history.policy)), history.people
    found: list[str] = []
    for made in history.run():
        release = made.release
        found += judge.see(release.records, release.manifest, release.members, people.table)
        found += scarcity.see(
            release.records, release.members, release.cohorts, people.held, people.registered, hidden_in(history.series)
        )
    return found


SEEDS = st.integers(0, 10**9)
QUIET = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@QUIET
@given(seed=SEEDS)
def test_cohorts_are_balanced_in_every_group_and_every_other_promise_is_kept(seed: int) -> None:
    assert _verdicts(_History(seed)) == []


@QUIET
@given(seed=SEEDS)
def test_the_three_rules_hold_and_nobody_has_fewer_than_l_alibis_when_everyone_is_known(seed: int) -> None:
    assert _verdicts(_History(seed, "all")) == []


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=SEEDS, participation=st.sampled_from([0, 1, "all"]))
def test_restarting_from_records_after_every_release_changes_nothing(seed: int, participation: Any) -> None:
    straight, restarted = _History(seed, participation), _History(seed, participation)
    for one, other in zip(straight.run(), restarted.run(), strict=True):
        assert (one.release.records, one.release.manifest) == (other.release.records, other.release.manifest)
        assert one.release.cohorts == other.release.cohorts
        assert one.change == other.change
        restarted.series.restart(random.Random(seed))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=SEEDS)
def test_an_owner_is_only_replaced_by_somebody_who_could_have_been_it_all_along(seed: int) -> None:
    history = _History(seed)
    people = history.people
    where: list[dict[str, Any]] = [{}]  # by release: everyone registered, and their quasi-identifiers
    before: dict[int, Clique] = {}
    for _ in history.run():
        where.append({**people.absent, **{person: record[0] for person, record in people.table.items()}})
        now = dict(history.series.state.cohorts.cliques)
        for number, old in before.items():
            new = now[number]
            assert (old.holder, old.value) == (new.holder, new.value), "a holder keeps their instance"
            for place in range(1, len(old.owners)):
                if old.nodes[place] == -1:
                    continue
                assert old.nodes[place] == new.nodes[place]
                assert new.created[place] in (old.created[place], NEVER)
                buddy = new.owners[place]
                if buddy in ("", old.owners[place]):
                    continue
                assert new.value not in _codes(history, buddy)
                since = where[old.created[place] : -1]
                assert all(buddy in registered for registered in since)
                assert len({str(registered[buddy]) for registered in since}) == 1
        before = now


def _codes(history: _History, person: str) -> set[int]:
    return {history.policy.sensitive.hierarchy.leaf_code[value] for value in history.people.held.get(person, ())}


def test_most_permanent_values_are_shown() -> None:
    judge = ScarcityJudge(2, frozenset({"hiv"}))
    rng = random.Random(5)
    people = Population(rng, tuple(v for v in DISEASES if v != "hiv"), ("hiv",))
    series = Series(clinic_policy(k=2, l=2, permanent=["hiv"]))
    events = [*people.register(100), *people.arrive(200)]
    for _ in range(RELEASES):
        release = series.release(events).release
        secrets = people.held, people.registered, hidden_in(series)
        assert judge.see(release.records, release.members, release.cohorts, *secrets) == []
        events = list(people.churn(20))
    assert judge.shown > 50
    assert judge.suppressed < judge.shown / 10


# -- engines that are wrong: the judge must say so ---------------------------------------------------------------------


def _caught(participation: Any = None) -> set[str]:
    return {
        verdict.split(": ", 1)[1]
        for seed in range(25)
        for verdict in _verdicts(_History(seed, participation))
        if "max_breach" not in verdict
    }


_standing = Claims._standing


@pytest.mark.parametrize(
    ("make_wrong", "participation", "verdict"),
    [
        (tear_cliques, None, "a group's owners of a cohort are not as many as the value is shown"),
        (leave_decoys, None, "a clique has neither its value nor a * of its own"),
        (share_stars, "all", "a clique has neither its value nor a * of its own"),
        (crowd_holders, "all", "a group shows a permanent value twice"),
        (renew_cliques, "all", "fewer than l people could be a holder"),
    ],
)
def test_the_judge_catches_engines_that_are_wrong_about_cliques(
    make_wrong: Callable[[pytest.MonkeyPatch], None],
    participation: Any,
    verdict: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_wrong(monkeypatch)
    assert verdict in _caught(participation)


def test_the_judge_catches_holders_who_are_counted_as_company(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(claims: Claims, left: int, before: Any, weights: Any, members: list[int], raised: Any) -> Standing:
        found = _standing(claims, left, before, weights, members, raised)
        return found._replace(left=found.left + sum(claims.target(unit).permanent for unit in members))

    monkeypatch.setattr(Claims, "_standing", counted)
    assert "somebody's breach is over 1/l" in _caught()
