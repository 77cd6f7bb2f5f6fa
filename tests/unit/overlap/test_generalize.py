"""Baig's generalize: who starts in a coarse cell, who stays there, and what becomes of it."""

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

import shoal.core.overlap.generalize
from shoal.core.cells.mondrian import grow
from shoal.core.cells.tree import Rows, Tree
from shoal.core.events.window import GONE, PUT, Delta
from shoal.core.groups.ledger import Ledger
from shoal.core.overlap.external import External, ExternalGroup, Externals, parse_external
from shoal.core.overlap.generalize import ReleaseContext, generalize
from shoal.core.overlap.overlaps import ExternalIndex
from shoal.core.overlap.tuning import COARSE_LOSS
from shoal.core.people import People
from shoal.core.person import NOWHERE
from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.policy import Policy, build_policy
from shoal.core.randomness import Keyed
from shoal.core.state import State
from shoal.core.stored import write_person
from shoal.streams.store.records import pack, person_of
from tests.support.engines.series import clinic_policy, crowd, encode
from tests.support.regions import region_of

VALUES = "ABCDEFGHI"


def others(policy: Policy, *regions: Any) -> list[ExternalGroup]:
    """What somebody else released: in each region each value once."""
    shown = dict.fromkeys(policy.sensitive.hierarchy.leaves, 1)
    groups = [{"region": region, "sensitive": shown} for region in regions]
    read = parse_external({"op": "external", "publisher": "north", "groups": groups}, policy)
    assert isinstance(read, External)
    return list(read.groups)


class Newcomers:
    """A crowd that has leaves and was never published."""

    def __init__(self, *regions: Any, count: int = 400) -> None:
        self.policy = policy = clinic_policy(k=3, headroom=2)
        keyed = Keyed(b"secret", "clinic")
        people, self.tree = People(policy.attributes, keyed), Tree(policy.attributes)
        deltas = [encode(policy, qid, values) for qid, values in crowd(count, 3).values()]
        people.admit(
            [f"p{n}" for n in range(count)],
            status=[1] * count,
            home=[0] * count,
            qids=[delta[1] for delta in deltas],  # type: ignore[misc]  # nobody is without
            values=[delta[2] for delta in deltas],  # type: ignore[misc]
            guards=[None] * count,
            since=1,
        )
        people.merge()
        self.everyone = np.arange(count)
        grow(self.tree, people.columns, people.leaf, [(0, self.everyone)], 5)
        self.leaf = people.leaf.copy()
        self.context = ReleaseContext(people, self.tree, Ledger(policy), policy, keyed, 1)
        externals = Externals()
        externals.add(others(policy, *regions) if regions else ())
        self.index = ExternalIndex(policy, externals)

    def generalize(self, rows: Rows | None = None) -> list[int]:
        rows = self.everyone if rows is None else rows
        return sorted(generalize(self.context, self.index, rows, self.everyone).tolist())

    @property
    def people(self) -> People:
        return self.context.people

    def region(self, node: int) -> Any:
        return region_of(self.tree, node)


def lowest(tree: Tree) -> list[int]:
    """The nodes just above leaves."""
    return [node for node, record in tree.records() if tree.is_leaf(record.left) and tree.is_leaf(record.right)]


def beside_lowest() -> Newcomers:
    """A crowd beside somebody whose regions are every other node just above our leaves."""
    plain = Newcomers()
    return Newcomers(*[plain.region(node) for node in lowest(plain.tree)[::2]])


def test_rows_start_in_the_smallest_node_that_covers_the_region_they_lie_in() -> None:
    crowd = beside_lowest()
    opened = crowd.generalize()
    assert opened
    assert set(opened) <= set(lowest(crowd.tree)[::2])
    parents = crowd.tree.parents()
    for row in np.flatnonzero(crowd.people.coarse != NOWHERE).tolist():
        assert crowd.people.coarse[row] == crowd.people.leaf[row] == parents[crowd.leaf[row]]


def test_coarse_cells_and_the_leaves_below_have_rows_enough_to_begin_with() -> None:
    crowd = beside_lowest()
    opened = crowd.generalize()
    rows = Counter(crowd.people.leaf.tolist())
    assert all(rows[node] >= 5 for node in opened)
    assert all(rows[leaf] >= 5 for leaf in set(crowd.leaf.tolist()))


def test_no_coarse_cell_loses_more_than_the_bound_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = beside_lowest()
    crowd.generalize()
    losses = crowd.tree.losses(crowd.people.leaf) / crowd.tree.losses(crowd.leaf)
    assert 1.2 < losses.max() <= COARSE_LOSS
    assert Newcomers({}).generalize() == []
    monkeypatch.setattr(shoal.core.overlap.generalize, "COARSE_LOSS", 9.0)
    assert Newcomers({}).generalize() == [0]


def test_a_region_within_a_leaf_asks_for_nothing() -> None:
    plain = Newcomers()
    assert Newcomers(plain.region(int(plain.leaf[0]))).generalize() == []


def test_the_order_of_rows_decides_nothing() -> None:
    one, other = beside_lowest(), beside_lowest()
    shuffled = np.random.default_rng(5).permutation(one.everyone)
    assert one.generalize() == other.generalize(shuffled)
    assert one.people.coarse.tolist() == other.people.coarse.tolist()


def test_a_float_region_that_ends_at_a_cut_is_covered_and_one_that_includes_it_is_not() -> None:
    tree = Tree(clinic_policy().attributes)
    tree.put_many(np.array([0]), np.array([1]), np.array([0]), np.array([61.5]))
    inside, beyond = ((0, 0.0, 0, 0), (100, 61.5, 2, 5)), ((0, 0.0, 0, 0), (100, np.nextafter(61.5, 99), 2, 5))
    for (low, high), node in ((inside, 1), (beyond, 0)):
        columns = ([np.array([number]) for number in side] for side in (low, high))
        assert tree.smallest_over(np.array([1]), *columns).tolist() == [node]
    whole = (
        [np.array([number]) for number in side] for side in ((0, 61.5, 0, 0), (100, np.nextafter(200.0, 999), 2, 5))
    )
    assert tree.smallest_over(np.array([2]), *whole).tolist() == [2]


class Village:
    """Two people of 20 and two of 30, 70 and 80 years; then others publish 20 to 30, and four more come of each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **sensitive: Any) -> None:
        monkeypatch.setattr(shoal.core.overlap.generalize, "COARSE_LOSS", 4.0)
        document = {
            "table": "village",
            "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
            "sensitive": {"name": "disease", "values": list(VALUES), "open": list(VALUES[1:]), **sensitive},
            "privacy": {
                "values": "redrawn",
                "k": 2,
                "l": 2,
                "headroom": 0,
                "strategy": {"name": "adaptive", "releases": 1},
            },
        }
        self.policy = build_policy(document, {}, b"village")
        self.state = State.empty(self.policy, b"secret")
        self.made: Plan = self.release({f"old{age}{n}": (age, "B") for age in (20, 30, 70, 80) for n in "ab"})
        theirs = others(self.policy, {"age": {"min": 20, "max": 30}})
        arriving = {f"new{age}{value}": (age, value) for age, four in ((20, "BCDE"), (30, "FGHI")) for value in four}
        self.release(arriving, theirs)

    def release(self, changes: dict[str, Any], theirs: Any = ()) -> Plan:
        """The next release; people come or change as (age, value), or go."""
        codes = self.policy.sensitive.hierarchy.leaf_code
        deltas: dict[str, Delta] = {
            person: (GONE, None, None, None, None)
            if record is None
            else (PUT, record[:1], (codes[record[1]],), None, None)
            for person, record in changes.items()
        }
        self.made = plan(self.state, Window(None, {0: deltas}, theirs), self.policy, self.state.meta.release + 1)
        self.state.apply(self.made.change)
        self.state.check_invariants()
        return self.made

    def regions(self) -> dict[str, tuple[int, int]]:
        """Everybody's published region."""
        found = {cell["cell"]: cell["region"]["age"] for cell in map(json.loads, self.made.release.cells)}
        return {person: (found[cell]["min"], found[cell]["max"]) for person, _, cell in self.made.release.members}


COARSE = (0, 49)


@pytest.fixture
def village(monkeypatch: pytest.MonkeyPatch) -> Village:
    return Village(monkeypatch)


def newcomers(village: Village) -> list[str]:
    return sorted(person for person in village.regions() if person.startswith("new"))


def test_newcomers_start_coarse_and_people_published_before_keep_their_region(village: Village) -> None:
    regions = village.regions()
    assert {regions[person] for person in newcomers(village)} == {COARSE}
    assert {regions[f"old{age}a"] for age in (20, 30, 70, 80)} == {(0, 25), (26, 49), (50, 75), (76, 99)}


def test_a_row_that_started_coarse_stays_coarse_with_another_value_or_after_an_absence(village: Village) -> None:
    village.release({"new20B": (20, "H"), "new20C": None})
    assert village.regions()["new20B"] == COARSE
    village.release({"new20C": (20, "C")})
    assert village.regions()["new20C"] == COARSE


def test_other_quasi_identifiers_lead_to_a_leaf(village: Village) -> None:
    village.release({"new20B": (31, "B")})
    assert village.regions()["new20B"] == (26, 49)


def test_newcomers_where_nobody_else_published_do_not_start_coarse(village: Village) -> None:
    village.release({"late": (70, "B")})
    assert village.regions()["late"] == (50, 75)


def test_a_coarse_cell_under_k_is_closed_until_newcomers_fill_it(village: Village) -> None:
    *gone, last = newcomers(village)
    village.release(dict.fromkeys(gone))
    assert last not in village.regions()
    assert json.loads(village.made.release.manifest)["withheld"] == 1
    village.release({"late": (40, "B")})
    assert (village.regions()[last], village.regions()["late"]) == (COARSE, COARSE)


def test_people_published_before_do_not_fill_a_coarse_cell(village: Village) -> None:
    *gone, last = newcomers(village)
    village.release(dict.fromkeys(gone) | {"old20a": (20, "C")})
    assert last not in village.regions()
    assert village.regions()["old20a"] == (0, 25)


def test_a_coarse_cell_is_never_split(village: Village) -> None:
    size = village.state.tree.size
    village.release({person: (20 if "20" in person else 30, "C") for person in newcomers(village)})
    assert village.state.tree.size == size


def test_beside_permanent_values_everybody_is_published_at_their_leaf(monkeypatch: pytest.MonkeyPatch) -> None:
    village = Village(monkeypatch, permanent=["A"])
    assert len(newcomers(village)) == 8
    assert COARSE not in village.regions().values()


def test_a_state_read_back_from_its_stored_bytes_has_everybody_in_their_coarse_cell(village: Village) -> None:
    state = village.state
    stored = [(person_id, pack(write_person(person))) for person_id, person in state.records("people")]
    people = [(person_id, person_of(raw)) for person_id, raw in stored]
    loaded = State.load(
        village.policy,
        b"secret",
        state.meta,
        people=people,
        groups=state.records("groups"),
        nodes=state.records("nodes"),
    )
    assert loaded.people.leaf.tolist() == state.people.leaf.tolist()
    assert np.count_nonzero(loaded.people.coarse != NOWHERE) == 8
