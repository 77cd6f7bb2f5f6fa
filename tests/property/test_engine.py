"""The engine against the naive judge, on random small histories; and the judge against engines that are wrong."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.core.cells.tree import Tree
from shoal.core.draft import Draft
from shoal.core.events.window import PRESENT
from shoal.core.groups.ledger import Accounts
from shoal.core.person import NOBODY
from shoal.core.plan import plan
from shoal.core.state import State
from tests.support.engines.series import (
    DISEASES,
    ZIPS,
    churn,
    clinic_policy,
    clinic_rules,
    crowd,
    run_series,
    window_between,
)
from tests.support.judges.series import Judge, Table

QIDS = st.fixed_dictionaries(
    {
        "age": st.integers(0, 99) | st.sampled_from([20, 30, 40]),
        "weight": st.sampled_from([0.0, 50.0, 61.5, 61.55, 72.25, 99.9, 200.0])
        | st.floats(0, 200, allow_nan=False).map(abs),
        "sex": st.sampled_from(["female", "male"]),
        "zip": st.sampled_from(list(ZIPS)),
    }
)
VALUES = st.frozensets(st.sampled_from(DISEASES), min_size=1, max_size=2) | st.sampled_from([frozenset({"hiv"})])
GUARDS = (
    st.none()
    | st.just("")
    | st.tuples(st.sampled_from(["*", "flu", "hiv", "ulcer"]), st.none() | st.sampled_from([0.25, 0.1]))
)
RECORDS = st.tuples(QIDS, VALUES, st.none() | GUARDS)


@st.composite
def histories(draw: Any) -> list[Table]:
    """Three to six tables; from one to the next a few people come, go, change value or move."""
    table: dict[str, Any] = draw(st.dictionaries(st.integers(0, 40).map("p{}".format), RECORDS, max_size=30))
    tables: list[Table] = [dict(table)]
    for _ in range(draw(st.integers(2, 5))):
        changes = draw(
            st.lists(st.tuples(st.integers(0, 50).map("p{}".format), st.sampled_from("dvqgi"), RECORDS), max_size=8)
        )
        for person, kind, record in changes:
            if kind == "i" or person not in table:
                table[person] = record
            elif kind == "d":
                del table[person]
            else:
                at = "qvg".index(kind)
                table[person] = (*table[person][:at], record[at], *table[person][at + 1 :])
        tables.append(dict(table))
    return tables


POLICIES = st.builds(
    clinic_policy,
    k=st.integers(1, 4),
    l=st.integers(2, 4),
    headroom=st.integers(0, 3),
    strategy=st.sampled_from(
        [
            {"name": "adaptive", "releases": 3},
            {"name": "adaptive", "releases": 1},
            {"name": "constant-ratio", "releases": 2},
            {"name": "geometric", "alpha": 1.5},
        ]
    ),
    case_ids=st.booleans(),
    flat=st.booleans(),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(policy=POLICIES, tables=histories())
def test_no_promise_is_ever_broken(policy: Any, tables: list[Table]) -> None:
    judge = Judge(clinic_rules(policy))
    for _, made, table in run_series(policy, tables):
        assert judge.see(made.release.records, made.release.manifest, made.release.members, table) == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(policy=POLICIES, tables=histories(), order=st.randoms(use_true_random=False))
def test_restarting_from_records_after_every_release_changes_no_byte(
    policy: Any, tables: list[Table], order: Any
) -> None:
    reloaded = State.empty(policy, b"test")
    before: Table = {}
    for number, (_, made, table) in enumerate(run_series(policy, tables), 1):
        again = plan(reloaded, window_between(policy, before, table), policy, number)
        assert (again.release.records, again.release.manifest) == (made.release.records, made.release.manifest)
        reloaded.apply(again.change)
        people = list(reloaded.records("people"))
        order.shuffle(people)
        reloaded = State.load(
            policy,
            b"test",
            reloaded.meta,
            people=people,
            groups=reloaded.records("groups"),
            nodes=reloaded.records("nodes"),
        )
        before = table


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(policy=POLICIES, tables=histories())
def test_planning_leaves_the_state_as_it_was(policy: Any, tables: list[Table]) -> None:
    for state, made, table in run_series(policy, tables):
        window = window_between(policy, table, {})
        first, second = (plan(state, window, policy, made.change.meta.release + 1) for _ in range(2))
        assert first.release.manifest == second.release.manifest
        assert first.change == second.change


def _verdicts(policy: Any, tables: list[Table]) -> str:
    judge = Judge(clinic_rules(policy))
    found = [
        sentence
        for _, made, table in run_series(policy, tables)
        for sentence in judge.see(made.release.records, made.release.manifest, made.release.members, table)
    ]
    return "\n".join(found)


def test_the_judge_accepts_this_engine_on_a_crowd_that_changes() -> None:
    assert _verdicts(clinic_policy(k=4, l=3), churn(200, 5)) == ""


def test_the_judge_catches_an_engine_that_forgets_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    none = np.zeros(0, dtype=np.int64)
    nothing = Accounts(none, none, np.zeros(0), none)
    monkeypatch.setattr("shoal.core.groups.ledger.Ledger.accounts", lambda self, exposed, exposed_to: nothing)
    monkeypatch.setattr(
        "shoal.core.groups.ledger.Ledger.least_survivals", lambda self, exposed, exposed_to, people: np.ones(people)
    )
    monkeypatch.setattr(
        "shoal.core.groups.ledger.Ledger.standings",
        lambda self, exposed, exposed_to, person, leaf: (np.ones(len(leaf)), np.zeros(len(leaf), dtype=np.int64)),
    )
    assert "breach is over 1/l" in _verdicts(
        clinic_policy(k=4, l=3, strategy={"name": "adaptive", "releases": 1}), churn(200, 5)
    )


def test_the_judge_catches_an_engine_whose_groups_are_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.core.groups.promises.Promises.wrong", lambda self, members, raised: None)
    monkeypatch.setattr("shoal.core.groups.deal.required_ratio", lambda strategy, l, survival, exposures: 1.0)
    assert "breach is over 1/l" in _verdicts(clinic_policy(k=4, l=3), churn(100, 2))


def test_the_judge_catches_an_engine_that_carries_a_group_with_someone_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep(self: Any, groups: set[int]) -> None:
        before, now = self._state.people, self._people
        for row in range(len(before)):
            if now.status[row] == PRESENT and int(before.group[row]) in groups:
                now.group[row] = before.group[row]

    monkeypatch.setattr("shoal.core.redrawn.Redrawn._break", keep)
    assert "although one of its people changed" in _verdicts(clinic_policy(k=4, l=3), churn(100, 2))


def test_the_judge_catches_an_engine_that_publishes_cells_under_k(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_all(self: Any) -> None:
        self._is_closed = np.zeros(self._tree.size, dtype=bool)

    monkeypatch.setattr("shoal.core.redrawn.Redrawn.close_cells", open_all)
    assert "fewer than k people" in _verdicts(clinic_policy(k=4, l=3, headroom=0), churn(100, 4))


def test_the_judge_catches_an_engine_that_draws_a_new_tree_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    grow = Draft.grow_tree

    def regrow(self: Any, folded: Any) -> None:
        self.tree.__dict__.update(Tree(self.policy.attributes).__dict__)
        self.people.leaf[:] = 0
        folded.arrived = self.people.present().tolist()
        self.people.group[:] = NOBODY
        grow(self, folded)

    monkeypatch.setattr(Draft, "grow_tree", regrow)
    monkeypatch.setattr("shoal.core.state.State.check_invariants", lambda self: None)
    verdicts = _verdicts(clinic_policy(k=4, l=3, headroom=0), churn(100, 3))
    assert "a person's region is not inside an earlier one" in verdicts


def test_case_ids_follow_a_person_until_their_quasi_identifiers_change() -> None:
    first = crowd(40, 1)
    moved = {**first, "p0": ({**first["p0"][0], "age": (first["p0"][0]["age"] + 50) % 100}, first["p0"][1])}
    shown = []
    for _, made, _ in run_series(clinic_policy(k=2, case_ids=True), [first, moved]):
        groups = map(json.loads, made.release.groups)
        shown.append({case for group in groups for cases in group["cells"].values() for case in cases})
        assert not any("p0" in case for case in shown[-1])
    assert len(shown[0] - shown[1]) == len(shown[1] - shown[0]) == 1


def test_fewer_than_k_people_are_all_withheld() -> None:
    (_, made, _), (_, empty, _) = run_series(clinic_policy(k=5), [crowd(4, 1), {}])
    facts = json.loads(made.release.manifest)
    assert (facts["people"], facts["withheld"], facts["groups"], facts["loss"]) == (0, 4, 0, None)
    assert json.loads(empty.release.manifest)["withheld"] == 0
