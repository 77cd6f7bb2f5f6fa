"""The auditor beside the engine and beside brute force, on random small tables, draws, trees and events."""

import json
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.core.audit import Auditor, Stored, Truth, write_report
from shoal.core.audit.attack.attacks import unsafe_rows
from shoal.core.audit.attack.worlds import Draw, Owners, count_worlds, linked_fraction, tokens_of
from shoal.core.audit.criteria.exposure import breach_of, shares_of
from shoal.core.audit.criteria.values import can_be_shown_as
from shoal.core.audit.permanent.learned import draw_of
from shoal.core.audit.reading.onetree import find_crossing, find_knots
from shoal.core.audit.reading.published import Group, ReleaseReader
from shoal.core.audit.reading.regions import Region
from shoal.core.events.event import Reject
from shoal.core.events.intake import Intake
from shoal.core.events.window import PRESENT
from shoal.core.plan import Window, plan
from shoal.core.policy.hierarchy import parse_hierarchy
from shoal.core.policy.policy import Policy, Sensitive, build_policy
from shoal.core.state import State
from tests.property.test_engine import POLICIES, histories
from tests.support.engines.audited import events_between, redrawn, stored
from tests.support.engines.series import DISEASES, churn, clinic_policy, run_series
from tests.support.judges.series import Table

QUIET = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
HIERARCHY = parse_hierarchy("a;x;*\nb;x;*\nc;y;*\nd;y;*\n")
SENSITIVE = Sensitive("s", HIERARCHY, frozenset(), frozenset())
LABELS = ["a", "b", "c", "d"]
SETS = st.frozensets(st.integers(0, 3), min_size=1)


def shown(labels: list[str]) -> dict[int, int]:
    return dict(Counter(HIERARCHY.node_of[label] for label in labels))


@settings(max_examples=150, deadline=None)
@given(
    groups=st.lists(
        st.lists(st.sampled_from([*LABELS, *LABELS, "x", "y", "*"]), min_size=1, max_size=4), min_size=1, max_size=2
    ),
    leaves=SETS,
)
def test_breach_is_the_share_of_worlds_where_everyone_has_one_value(groups: list[list[str]], leaves: Any) -> None:
    """Each group is one draw, however often it is carried over; equal without "*", never below with it."""
    draws = [Draw(len(labels), tokens_of(HIERARCHY, shown(labels)), 0) for labels in groups]
    breach = breach_of([shares_of(len(labels), shown(labels), SENSITIVE) for labels in groups], leaves)
    enumerated = linked_fraction(draws, leaves)
    assert breach >= enumerated
    assert breach == enumerated or any("*" in labels for labels in groups)


@settings(max_examples=100, deadline=None)
@given(
    people=st.lists(st.frozensets(st.sampled_from(LABELS), min_size=1, max_size=3), min_size=1, max_size=4),
    leaf=st.integers(0, 3),
    leaves=SETS,
)
def test_breach_is_the_share_of_worlds_where_people_have_sets_of_values(people: Any, leaf: int, leaves: Any) -> None:
    """For one value; for several at once it can only be more careful."""
    counts = shown([label for values in people for label in values])
    draw = Draw(len(people), tokens_of(HIERARCHY, counts), 0, Owners.SETS)
    shares = [shares_of(len(people), counts, SENSITIVE)]
    assert breach_of(shares, [leaf]) == linked_fraction([draw], frozenset({leaf}))
    assert breach_of(shares, leaves) >= linked_fraction([draw], leaves)


@settings(max_examples=40, deadline=None)
@given(labels=st.lists(st.sampled_from(LABELS), min_size=1, max_size=3), leaf=st.integers(0, 3))
def test_a_formula_with_too_large_an_n_is_caught_by_the_worlds(labels: list[str], leaf: int) -> None:
    draw = Draw(len(labels), tokens_of(HIERARCHY, shown(labels)), 0)
    wrong = breach_of([shares_of(len(labels) + 1, shown(labels), SENSITIVE)], [leaf])
    assert (wrong < linked_fraction([draw], frozenset({leaf}))) == (HIERARCHY.leaves[leaf] in labels)


@settings(max_examples=100, deadline=None)
@given(
    leaves=st.lists(st.integers(0, 3), max_size=4),
    labels=st.lists(st.sampled_from([*LABELS, "x", "y", "*"]), max_size=4),
)
def test_counting_up_the_hierarchy_decides_as_trying_every_matching_does(leaves: list[int], labels: list[str]) -> None:
    nodes = [HIERARCHY.node_of[label] for label in labels]
    matches = len(leaves) == len(nodes) and any(
        all(HIERARCHY.first[node] <= leaf < HIERARCHY.last[node] for leaf, node in zip(leaves, order, strict=True))
        for order in permutations(nodes)
    )
    assert can_be_shown_as(HIERARCHY, Counter(leaves), Counter(nodes)) == matches


@st.composite
def trees(draw: Any) -> list[Region]:
    """Some of the nodes of a random tree of cuts in the plane."""
    nodes, leaves = [], [Region((0, 0), (16, 16))]
    for _ in range(draw(st.integers(0, 12))):
        region = leaves.pop(draw(st.integers(0, len(leaves) - 1)))
        nodes.append(region)
        axis = draw(st.integers(0, 1))
        if region.high[axis] - region.low[axis] < 2:
            continue
        cut = draw(st.integers(int(region.low[axis]) + 1, int(region.high[axis]) - 1))
        low, high = list(region.low), list(region.high)
        high[axis] = low[axis] = cut
        leaves += [Region(region.low, tuple(high)), Region(tuple(low), region.high)]
    everything = nodes + leaves
    return [region for region in everything if draw(st.booleans())]


@settings(max_examples=100, deadline=None)
@given(
    regions=trees(),
    corner=st.tuples(*(st.integers(0, 12),) * 2),
    size=st.tuples(*(st.integers(1, 8),) * 2),
)
def test_nodes_of_a_tree_are_one_tree_and_a_box_that_crosses_one_is_not(regions: Any, corner: Any, size: Any) -> None:
    assert find_knots(regions) == []
    box = Region(corner, (corner[0] + size[0], corner[1] + size[1]))
    if find_crossing([*regions, box]):
        assert find_knots([*regions, box])


class Watched(Auditor):
    """The auditor, driven by tables instead of folders."""

    def run(self, policy: Any, tables: list[Table]) -> None:
        truth, number = Truth(policy), 0
        releases = run_series(policy, tables)
        for event in events_between(tables):
            if truth.take(json.dumps(event).encode()) is None:
                continue
            number += 1
            truth.cut(number)
            release = next(releases)[1].release
            self.see(stored(release), list(release.members), truth, None)


@QUIET
@given(policy=POLICIES, tables=histories())
def test_the_auditor_finds_nothing_wrong_with_the_engine(policy: Any, tables: list[Table]) -> None:
    auditor = Watched(policy)
    auditor.run(policy, tables)
    assert [str(broken) for broken in auditor.findings] == []
    figures = auditor.report(b"key").private
    assert figures is not None
    assert figures.attacks.inference.unsafe == 0


@QUIET
@given(policy=POLICIES, tables=histories())
def test_no_breach_that_the_auditor_counts_is_below_the_share_of_worlds(policy: Any, tables: list[Table]) -> None:
    auditor = Watched(policy)
    auditor.run(policy, tables)
    exposures = redrawn(auditor).exposures
    for person, names in exposures.groups.items():
        draws = {name: draw_of(policy.sensitive.hierarchy, exposures.published[name]) for name in names}
        for leaf in {leaf for name in names for leaf in exposures.shares[name]}:
            relevant = [draws[name] for name in names if leaf in exposures.shares[name]]
            small = [draw for draw in relevant if draw is not None]
            total = 1
            for draw in small:
                total *= count_worlds(draw)
            if len(small) < len(relevant) or total > 2_000:
                continue
            breach, enumerated = exposures.breach(person, [leaf]), linked_fraction(small, frozenset({leaf}))
            assert breach >= enumerated
            is_plain = all(() not in draw.tokens for draw in small)
            assert breach == enumerated or not is_plain


@QUIET
@given(policy=POLICIES, tables=histories())
def test_an_outsiders_bound_is_never_below_the_largest_breach(policy: Any, tables: list[Table]) -> None:
    auditor = Watched(policy)
    auditor.run(policy, tables)
    report = auditor.report(b"key")
    assert report.private is not None
    assert report.public.most >= report.private.max_breach


TAXONOMY = {
    "flu": "lung", "asthma": "lung", "bronchitis": "lung", "angina": "heart", "infarct": "heart", "ulcer": "stomach",
    "gastritis": "stomach", "colitis": "colon", "gout": "joint", "arthritis": "joint", "sprain": "joint",
}  # fmt: skip
REGIONS = {"lung": "chest", "heart": "chest", "stomach": "belly", "colon": "belly", "joint": "limbs"}


def layered_policy(k: int, l: float, releases: int, headroom: int, open_values: list[str]) -> Policy:
    """A policy whose values can be raised in several steps."""
    hierarchy = "".join(f"{leaf};{organ};{REGIONS[organ]};*\n" for leaf, organ in TAXONOMY.items())
    return build_policy(
        {
            "table": "layered",
            "attributes": {
                "age": {"type": "int", "min": 0, "max": 99},
                "weight": {"type": "float", "min": 0.0, "max": 200.0},
            },
            "sensitive": {"name": "disease", "hierarchy": "disease.csv", "open": open_values},
            "privacy": {
                "values": "redrawn",
                "k": k, "l": l, "headroom": headroom, "strategy": {"name": "adaptive", "releases": releases},
            },
        },
        {"disease.csv": hierarchy.encode()},
        b"layered",
    )  # fmt: skip


class Clinic:
    """Random events about a small clinic, some values far more frequent than others; guards if the engine has them."""

    def __init__(self, policy: Policy, rng: Random) -> None:
        self.policy, self.rng = policy, rng
        self.size = rng.choice([8, 20, 60])
        self.present: set[str] = set()
        self.weights = [12, 6, 5, 4, 3, 3, 2, 2, 1, 1, 1] if rng.random() < 0.5 else [1] * 11
        probe = {"op": "insert", "id": "p", "qid": self.qid(), "sensitive": "flu", "guard": "lung"}
        self.has_guards = Intake(policy, {}).take(probe) is None

    def window(self, is_first: bool) -> Iterator[dict[str, Any]]:
        for _ in range(self.size if is_first else max(2, self.size // 6)):
            yield self.event(f"p{self.rng.randrange(2 * self.size)}")

    def event(self, person: str) -> dict[str, Any]:
        rng, what = self.rng, self.rng.random()
        if person not in self.present:
            self.present.add(person)
            guard = {"guard": self.guard()} if rng.random() < 0.15 else {}
            return {"op": "insert", "id": person, "qid": self.qid(), "sensitive": self.values(), **guard}
        if what < 0.3:
            self.present.discard(person)
            return {"op": "delete", "id": person}
        if what < 0.5:
            return {"op": "update", "id": person, "guard": self.guard()}
        if what < 0.75:
            return {"op": "update", "id": person, "sensitive": self.values()}
        return {"op": "update", "id": person, "qid": {"age": rng.randrange(100)}}

    def qid(self) -> dict[str, Any]:
        return {"age": self.rng.randrange(100), "weight": round(self.rng.uniform(0, 200), 1)}

    def values(self) -> list[str]:
        return sorted(set(self.rng.choices(list(TAXONOMY), self.weights, k=self.rng.choice([1, 1, 1, 2]))))

    def guard(self) -> Any:
        node = self.rng.choice(["lung", "chest", "heart", "stomach", "belly", "*", "gout", "flu", "joint"])
        bounds = [0.05, 0.2, 0.3, 1 / self.policy.l]
        choices = [node, "", {"node": node, "bound": self.rng.choice(bounds)}, {"node": None}]
        return self.rng.choice(choices) if self.has_guards else None


@pytest.mark.parametrize("seed", range(80))
def test_the_auditor_finds_nothing_wrong_where_values_are_raised_and_guarded(seed: int) -> None:
    """Seeds rather than hypothesis, which likes small numbers: it takes a worn budget before values are raised."""
    rng = Random(seed)
    policy = layered_policy(
        k=rng.choice([1, 2, 3, 5]),
        l=rng.choice([2, 2.5, 3]),
        releases=rng.choice([1, 1, 3]),
        headroom=rng.randrange(3),
        open_values=rng.choice([[], ["sprain"], ["sprain", "flu"]]),
    )
    clinic, auditor = Clinic(policy, rng), Auditor(policy)
    truth, intake, state = Truth(policy), Intake(policy, {}), State.empty(policy, b"test")
    for number in range(1, rng.choice([3, 5, 7])):
        for event in clinic.window(is_first=number == 1):
            truth.take(json.dumps(event).encode())
            assert intake.take(event) is None
        truth.cut(number)
        made = plan(state, Window(None, {0: intake.cut()}), policy, number)
        state.apply(made.change)
        auditor.see(stored(made.release), list(made.release.members), truth, None)
    assert [str(broken) for broken in auditor.findings] == []
    figures = auditor.report(b"key").private
    assert figures is not None
    assert all(one.enumerated is None or one.enumerated <= one.breach for one in figures.worst)


JUNK: Any = [None, True, -1, 0, 1.5, "x", [], {}, [1], {"a": 1}, 10**30, 1e308, "*", "c1", "g1"]


def spoil(rng: Random, value: Any) -> None:
    """Puts junk into one place of a JSON value."""
    while True:
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        if not isinstance(value[key], dict | list) or not value[key] or rng.random() < 0.3:
            break
        value = value[key]
    if rng.random() < 0.2:
        del value[key]
    else:
        value[key] = rng.choice(JUNK)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_is_in_a_release_the_auditor_says_so_and_goes_on(seed: int) -> None:
    rng, policy, tables = Random(seed), clinic_policy(k=2, l=2), churn(30, 2, "secret-")
    clean, spoilt, truth = Auditor(policy), Auditor(policy), Truth(policy)
    releases = run_series(policy, tables)
    number, was_spoilt = 0, False
    for event in events_between(tables):
        if truth.take(json.dumps(event).encode()) is None:
            continue
        number += 1
        truth.cut(number)
        release = next(releases)[1].release
        records, manifest = [json.loads(record) for record in release.records], json.loads(release.manifest)
        before = json.dumps([records, manifest])
        for target in rng.choices([manifest, *records], k=2):
            spoil(rng, target)
        was_spoilt |= before != json.dumps([records, manifest])
        texts = [json.dumps(record).encode() + b"\n" for record in records]
        cells, groups = b"".join(texts[: len(release.cells)]), b"".join(texts[len(release.cells) :])
        members = list(release.members)
        spoilt.see(Stored(number, cells, groups, json.dumps(manifest).encode()), members, truth, None)
        clean.see(stored(release), members, truth, None)
    for auditor in (clean, spoilt):
        report = auditor.report(b"key")
        assert list(write_report(report))
        assert json.dumps(report.as_json())
    assert len(clean.findings) == 0
    assert (len(spoilt.findings) > 0) == was_spoilt


FIELDS: Any = st.one_of(
    st.fixed_dictionaries({"age": st.sampled_from([3, 99, 100, 3.0, True, "3", None])}),
    st.fixed_dictionaries(
        {
            "age": st.sampled_from([3, 4]),
            "weight": st.sampled_from([1, 1.5, -0.0, 300]),
            "sex": st.sampled_from(["male", "other", 1]),
            "zip": st.sampled_from(["z11", "z12", "z1*"]),
        }
    ),
    st.sampled_from([{}, [], None, {"size": 1}]),
)
EVENTS = st.fixed_dictionaries(
    {
        "op": st.sampled_from(
            ["insert", "insert", "upsert", "update", "delete", "register", "deregister", "erase", "x"]
        ),
        "id": st.sampled_from(["p1", "p2", "p3", "", 7]),
    },
    optional={
        "qid": FIELDS,
        "sensitive": st.sampled_from([*DISEASES[:3], ["flu", "cold"], [], "*", 7, ["flu", "flu"]]),
        "at": st.sampled_from(["2026-01-01", "2026-01-01T10:00:00Z", "soon", None]),
        "guard": st.none(),
        "more": st.just(1),
    },
)
GOOD = st.builds(
    lambda person, age, disease: {
        "op": "insert",
        "id": person,
        "qid": {"age": age, "weight": 1.5, "sex": "male", "zip": "z11"},
        "sensitive": disease,
    },
    st.sampled_from(["p1", "p2", "p3"]),
    st.integers(0, 99),
    st.sampled_from(DISEASES),
)


@settings(max_examples=150, deadline=None)
@given(events=st.lists(EVENTS | GOOD, max_size=25))
def test_the_auditor_and_intake_take_the_same_events(events: list[Any]) -> None:
    policy = clinic_policy()
    truth, intake = Truth(policy), Intake(policy, {})
    for event in events:
        before = truth.accepted
        truth.take(json.dumps(event).encode())
        assert (truth.accepted > before) == (not isinstance(intake.take(event), Reject)), event
    assert truth.present.keys() == {person for person, status in intake.roster.items() if status == PRESENT}
    for person, record in truth.present.items():
        qid, values = intake.window[person][1:3]
        assert (record.qid, tuple(sorted(record.values))) == (qid, values)


def test_what_is_not_a_promise_is_not_counted_as_one() -> None:
    """A twin for the tests above: a group read wrongly is a finding, so an empty list means it was read right."""
    policy = clinic_policy()
    auditor = Auditor(policy)
    reader = ReleaseReader(policy, auditor.findings)
    reader.read(Stored(1, b"{}\n", b"{}\n", b"{}"))
    assert len(auditor.findings) == 3
    assert draw_of(HIERARCHY, Group("g1", 1, 1, (), {1: 2, 2: 1}, 0, 2)) is None
    assert unsafe_rows([Region((0,), (1,))] * 2 + [Region((1,), (2,))], 2) == 1
    assert Fraction(1, 2) > linked_fraction([Draw(3, ((0,),), 0)], frozenset({0}))
