"""G5 on random small histories: several publishers, whose tables arrive at any time, and the naive judge of it."""

import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import shoal.core.overlap.formation
import shoal.core.overlap.uneven_groups
from shoal.core.overlap.external import External, parse_external
from shoal.core.overlap.formation import Overlapped
from shoal.core.plan import Plan, plan
from shoal.core.policy.policy import Policy
from shoal.core.state import State
from tests.property.test_engine import histories
from tests.support.engines.series import DISEASES, KINDS, ZIPS, clinic_policy, clinic_rules, window_between
from tests.support.judges.composition import unbalanced
from tests.support.judges.series import Judge, Table

AGES = st.tuples(st.integers(0, 99), st.integers(0, 99)).map(lambda ends: {"min": min(ends), "max": max(ends)})
WEIGHTS = st.sampled_from([{"min": 0, "below": 61.5}, {"min": 50.0, "max": 99.9}, {"min": 61.5, "max": 200}])
SEXES = st.sampled_from([{"nodes": ["female"]}, {"nodes": ["male"]}, {"nodes": ["*"]}])
PLACES = st.lists(st.sampled_from([*ZIPS, "z1*", "z2*"]), min_size=1, max_size=2, unique=True).map(
    lambda nodes: {"nodes": nodes}
)
REGIONS = st.fixed_dictionaries({}, optional={"age": AGES, "weight": WEIGHTS, "sex": SEXES, "zip": PLACES})
SHOWN = st.dictionaries(st.sampled_from([*DISEASES, *DISEASES, *KINDS, "*"]), st.integers(1, 3), min_size=1, max_size=5)
FLAT = st.dictionaries(st.sampled_from([*DISEASES, "*"]), st.integers(1, 2), min_size=1, max_size=6)


def publications(shown: Any) -> Any:
    group = st.fixed_dictionaries({"region": REGIONS, "sensitive": shown}) | st.fixed_dictionaries(
        {"regions": st.lists(REGIONS, min_size=1, max_size=2), "sensitive": shown}
    )
    event = st.fixed_dictionaries(
        {
            "op": st.just("external"),
            "publisher": st.sampled_from(["north", "south", "east"]),
            "groups": st.lists(group, min_size=1, max_size=4),
        }
    )
    return st.lists(st.tuples(st.integers(0, 5), event), max_size=4)


def policies(**more: Any) -> Any:
    return st.builds(
        clinic_policy,
        k=st.integers(1, 3),
        l=st.integers(2, 3),
        headroom=st.integers(0, 2),
        overlap=st.integers(2, 3),
        sampling=st.sampled_from([1.0, 1.0, 0.5]),
        strategy=st.sampled_from([{"name": "adaptive", "releases": 1}, {"name": "adaptive", "releases": 3}]),
        **more,
    )


def groups_of(policy: Policy, event: Any) -> Any:
    read = parse_external(event, policy)
    assert isinstance(read, External), read
    return read.groups


def run(policy: Policy, tables: list[Table], events: Any, state: State | None = None) -> Any:
    """Plan and apply a release for each table, with what others published by then."""
    state = state or State.empty(policy, b"test")
    before: Table = {}
    for number, table in enumerate(tables, 1):
        window = window_between(policy, before, table)
        new = [event for at, event in events if at == number - 1]
        made = plan(state, window._replace(externals=[g for e in new for g in groups_of(policy, e)]), policy, number)
        state.apply(made.change)
        state.check_invariants()
        yield state, made, table, [event for at, event in events if at < number]
        before = table


def wrong_in(policy: Policy, made: Plan, table: Table, published: Any) -> list[str]:
    rules, release = clinic_rules(policy), made.release
    return unbalanced(
        release.records, release.members, table, published, policy.overlap, rules.sensitive, rules.attributes
    )


CASES = [(policies(flat=st.just(False)), publications(SHOWN)), (policies(flat=st.just(True)), publications(FLAT))]
EVERYTHING = st.one_of(*[st.tuples(policy, histories(), events) for policy, events in CASES])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(everything=EVERYTHING)
def test_every_overlapping_row_is_balanced_and_every_other_promise_kept(everything: Any) -> None:
    policy, tables, events = everything
    judge = Judge(clinic_rules(policy))
    for _, made, table, published in run(policy, tables, events):
        assert judge.see(made.release.records, made.release.manifest, made.release.members, table) == []
        assert wrong_in(policy, made, table, published) == []


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(everything=EVERYTHING)
def test_groups_made_by_template_keep_every_promise(everything: Any) -> None:
    policy, tables, events = everything
    judge = Judge(clinic_rules(policy))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shoal.core.overlap.uneven_groups, "FEWEST_UNEVEN", 1)  # these tables are too small for it
        patch.setattr(shoal.core.overlap.formation, "deal_even_groups", lambda *_: [])
        for _, made, table, published in run(policy, tables, events):
            assert judge.see(made.release.records, made.release.manifest, made.release.members, table) == []
            assert wrong_in(policy, made, table, published) == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(everything=EVERYTHING, order=st.randoms(use_true_random=False))
def test_restarting_from_records_changes_no_byte(everything: Any, order: Any) -> None:
    policy, tables, events = everything
    before: Table = {}
    reloaded = State.empty(policy, b"test")
    for number, (_, made, table, _) in enumerate(run(policy, tables, events), 1):
        new = [group for at, event in events if at == number - 1 for group in groups_of(policy, event)]
        order.shuffle(new)
        again = plan(reloaded, window_between(policy, before, table)._replace(externals=new), policy, number)
        assert (again.release.records, again.release.manifest) == (made.release.records, made.release.manifest)
        reloaded.apply(again.change)
        people, externals = list(reloaded.records("people")), list(reloaded.records("externals"))
        order.shuffle(people)
        order.shuffle(externals)
        groups, nodes = reloaded.records("groups"), reloaded.records("nodes")
        reloaded = State.load(
            policy, b"test", reloaded.meta, people=people, groups=groups, nodes=nodes, externals=externals
        )
        before = table


def _crowd(count: int) -> tuple[Table, Any]:
    rng = random.Random(7)
    table = {
        f"p{n}": (
            {
                "age": rng.randint(0, 99),
                "weight": round(rng.uniform(40, 120), 1),
                "sex": rng.choice(["female", "male"]),
                "zip": rng.choice(list(ZIPS)),
            },
            frozenset({rng.choice(DISEASES)}),
        )
        for n in range(count)
    }
    groups = [
        {
            "region": {"age": {"min": 10 * at, "max": 10 * at + 9}},
            "sensitive": dict.fromkeys(rng.sample(DISEASES, 5), 1),
        }
        for at in range(10)
    ]
    return table, {"op": "external", "publisher": "north", "groups": groups}


def test_a_crowd_stands_beside_a_publication_mostly_without_suppression() -> None:
    policy = clinic_policy(k=3, strategy={"name": "adaptive", "releases": 1}, overlap=3)
    table, event = _crowd(400)
    ((_, made, _, published),) = run(policy, [table], [(0, event)])
    assert wrong_in(policy, made, table, published) == []
    stars = sum(record.count(b'"*":') for record in made.release.groups)
    assert stars <= 4


def _uneven_crowd(count: int) -> tuple[Table, Any]:
    """Each age group of the other publisher shows its diseases one, two and three times."""
    table, event = _crowd(count)
    rng = random.Random(8)
    for group in event["groups"]:
        group["sensitive"] = {disease: rng.randint(1, 3) for disease in rng.sample(DISEASES, 6)}
    return table, event


def _stars(made: Plan) -> int:
    return sum(json.loads(record)["sensitive"].get("*", 0) for record in made.release.groups)


def test_a_crowd_beside_uneven_counts_is_mostly_balanced_and_hardly_without_templates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = clinic_policy(k=3, strategy={"name": "adaptive", "releases": 1}, overlap=3)
    table, event = _uneven_crowd(1_200)
    ((_, made, _, published),) = run(policy, [table], [(0, event)])
    assert wrong_in(policy, made, table, published) == []
    monkeypatch.setattr(shoal.core.overlap.formation, "fit_uneven_groups", lambda *_: [])
    ((_, without, _, _),) = run(policy, [table], [(0, event)])
    assert _stars(made) < 0.6 * _stars(without)


def test_a_template_that_takes_rows_for_balanced_that_are_not_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = clinic_policy(k=3, strategy={"name": "adaptive", "releases": 1}, overlap=3)
    table, event = _uneven_crowd(600)
    blocks = shoal.core.overlap.uneven_groups._Blocks
    monkeypatch.setattr(blocks, "_are_balanced", lambda self, _: np.ones(len(self._unit), dtype=bool))
    ((_, made, _, published),) = run(policy, [table], [(0, event)])
    assert wrong_in(policy, made, table, published) != []


@pytest.mark.parametrize(
    ("values", "guard"),
    [({"asthma", "gout"}, None), ({"asthma"}, ("airways", None))],
    ids=["several values", "a guard"],
)
def test_a_row_that_asks_for_more_than_a_place_is_given_a_group_around_it(values: set[str], guard: Any) -> None:
    policy = clinic_policy(k=2, strategy={"name": "adaptive", "releases": 1}, overlap=2)
    table, _ = _crowd(60)
    elsewhere: dict[str, Any] = {
        person: ({**qid, "age": qid["age"] // 3}, held) for person, (qid, held, *_) in table.items()
    }
    mine = ({**elsewhere["p0"][0], "age": 90}, frozenset(values), guard)
    shown = {"asthma": 1, "gout": 2, "ulcer": 1, "lupus": 2}
    groups = [{"region": {"age": {"min": 80, "max": 99}}, "sensitive": shown}]
    event = {"op": "external", "publisher": "north", "groups": groups}
    tables: list[Table] = [{**elsewhere, "mine": mine}]
    judge = Judge(clinic_rules(policy))
    ((_, made, table, published),) = run(policy, tables, [(0, event)])
    assert judge.see(made.release.records, made.release.manifest, made.release.members, table) == []
    assert wrong_in(policy, made, table, published) == []
    assert "mine" in {person for person, _, _ in made.release.members}
    assert _stars(made) == 0


def test_an_engine_that_ignores_other_publishers_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = clinic_policy(k=3, strategy={"name": "adaptive", "releases": 1}, overlap=3)
    table, event = _crowd(200)
    monkeypatch.setattr("shoal.core.redrawn.form_overlapping", lambda *_: Overlapped([], {}, 0.0))
    ((_, made, _, published),) = run(policy, [table], [(0, event)])
    assert wrong_in(policy, made, table, published) != []


def test_an_engine_that_carries_what_a_later_publication_makes_unsafe_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = clinic_policy(k=3, strategy={"name": "adaptive", "releases": 3}, overlap=3)
    table, event = _crowd(200)
    monkeypatch.setattr("shoal.core.redrawn.unsafe_groups", lambda *_: set())
    *_, (_, made, _, published) = run(policy, [table, table], [(1, event)])
    assert wrong_in(policy, made, table, published) != []


def test_only_groups_a_later_publication_makes_unsafe_are_broken() -> None:
    policy = clinic_policy(k=3, strategy={"name": "adaptive", "releases": 3}, overlap=3)
    table, event = _crowd(200)
    event["groups"] = event["groups"][:1]
    (_, first, _, _), (_, second, _, published) = run(policy, [table, table], [(1, event)])
    assert wrong_in(policy, second, table, published) == []
    carried = {group for _, group, _ in first.release.members} & {group for _, group, _ in second.release.members}
    assert len(carried) > 10
    assert wrong_in(policy, first, table, published) != []


def test_nobodys_coin_is_tossed_again_after_delete_and_insert() -> None:
    policy = clinic_policy(k=2, sampling=0.5, open=list(DISEASES))  # so that nobody is withheld
    table, _ = _crowd(300)
    members = [
        {person for person, _, _ in made.release.members} for _, made, _, _ in run(policy, [table, {}, table], [])
    ]
    assert members[0] == members[2]
    assert 100 < len(members[0]) < 200
