"""Pei et al., the engine on their examples: tables 1 to 6, figures 2 and 3, and the leakage on Adult (section 6).

What the auditor makes of the tables as the paper prints them is in test_audit_pei.py. The coordinates of the points in
figures 2 and 3 are not in the paper's text; those here are drawn so that they behave as it says.
"""

from collections.abc import Mapping

import numpy as np
import pytest

from shoal.core.audit.attack.attacks import Inference, unsafe_rows
from shoal.core.audit.reading.regions import Region
from shoal.core.cells.mondrian import grow
from shoal.core.cells.tree import Column, NodeRecord, Rows, Tree
from shoal.core.policy.policy import Policy, build_policy
from shoal.core.state import State
from tests.experiments.adult import FIRST, SEED, load_adult
from tests.experiments.mondrian import anonymize, unsafe_share, view_of
from tests.experiments.series import run
from tests.golden.test_audit_pei import NEVER_MOVED, PATIENTS, SEXES, TABLE_2, TABLE_5, ZIPS, boxes
from tests.support.engines.series import run_series
from tests.support.judges.series import Table

ZIP, SEX, AGE = 0, 1, 2
FIRST_FOUR, LAST_TWO = list(PATIENTS)[:4], list(PATIENTS)[4:]


def policy() -> Policy:
    diseases = [row[3] for row in PATIENTS.values()]
    document = {
        "table": "pei",
        "attributes": {
            "zip": {"type": "category", "hierarchy": "zip.csv"},
            "sex": {"type": "category", "values": list(SEXES)},
            "age": {"type": "int", "min": 0, "max": 99},
        },
        "sensitive": {"name": "disease", "values": diseases, "open": diseases},  # this is about regions
        "privacy": {"values": "redrawn", "k": 2, "l": 2, "headroom": 0},
    }
    return build_policy(document, {"zip.csv": "".join(f"{leaf};2043*;*\n" for leaf in ZIPS).encode()}, b"pei")


def patients(cases: list[str]) -> Table:
    return {
        case: (
            {"zip": PATIENTS[case][0], "sex": PATIENTS[case][1], "age": PATIENTS[case][2]},
            frozenset({disease}),
            None,
        )
        for case, disease in ((case, PATIENTS[case][3]) for case in cases)
    }


def columns() -> list[Column]:
    rows = [(ZIPS[zip_code], SEXES[sex], age) for zip_code, sex, age, _ in PATIENTS.values()]
    return [np.array(column) for column in zip(*rows, strict=True)]


def together(leaf: Mapping[str, int]) -> set[frozenset[str]]:
    """Who shares a region with whom."""
    return {frozenset(case for case in leaf if leaf[case] == node) for node in leaf.values()}


def published(state: State, cells: Mapping[str, int]) -> dict[str, Region]:
    """Everybody's region as the tree has it."""
    nodes = np.array(list(cells.values()))
    bounds = [state.tree.bounds(position, nodes) for position in range(3)]
    lows, highs = (np.stack([side[end] for side in bounds], axis=1).tolist() for end in (0, 1))
    return {case: Region(tuple(low), tuple(high)) for case, low, high in zip(cells, lows, highs, strict=True)}


def series(*tables: list[str]) -> list[tuple[dict[str, int], dict[str, Region], float]]:
    """For each release everybody's cell and region, and the release's NCP."""
    found = []
    for state, made, _ in run_series(policy(), [patients(cases) for cases in tables]):
        cells = {person: int(cell[1:]) for person, _, cell in sorted(made.release.members)}
        nodes, rows = np.unique(list(cells.values()), return_counts=True)
        found.append((cells, published(state, cells), float(state.tree.losses(nodes) @ rows) / len(cells)))
    return found


# -- tables 1 to 6 --------------------------------------------------------------------------------------------------


def test_the_update_refines_nobody_is_unsafe_and_both_releases_tell_what_the_last_one_does() -> None:
    (before, first, _), (after, second, _) = series(FIRST_FOUR, [*FIRST_FOUR, *LAST_TWO])
    assert list(before) == FIRST_FOUR
    assert list(after) == list(PATIENTS)
    assert {len(group) for group in together(before)} == {2}
    assert min(len(group) for group in together(after)) >= 2
    inference = Inference()
    assert unsafe_rows(inference.see(first, NEVER_MOVED), 2) == 0
    inferred = inference.see(second, NEVER_MOVED)
    assert inferred == list(second.values())  # section 4.2; tables 2 and 5 give table 6, in which four are unsafe
    assert unsafe_rows(inferred, 2) == 0


def test_no_cut_parts_the_patients_as_table_2_does() -> None:
    """Its boxes overlap: case 3 lies in that of cases 1 and 2. Regions of a tree cannot."""
    groups = {frozenset({"1", "2"}), frozenset({"3", "4"})}
    assert {frozenset(case for case in TABLE_2 if TABLE_2[case] == row) for row in TABLE_2.values()} == groups
    for column in columns():
        for cut in range(int(column.max()) + 1):
            left = frozenset(case for case, value in zip(FIRST_FOUR, column[:4].tolist(), strict=True) if value < cut)
            assert left not in groups
    assert boxes(TABLE_2)["1"].low[AGE] <= PATIENTS["3"][2] < boxes(TABLE_2)["1"].high[AGE]


def test_an_update_published_by_itself_is_more_general_as_table_4_is() -> None:
    (_, alone, ncp_alone), *_ = series(LAST_TWO)
    *_, (_, joint, ncp_joint) = series(FIRST_FOUR, [*FIRST_FOUR, *LAST_TWO])
    assert alone["5"] == alone["6"] == Region((0, 0, 0), (3, 2, 100))
    assert all(joint[case] != alone[case] for case in LAST_TWO)
    assert ncp_joint < ncp_alone


def test_from_a_cut_in_age_the_update_is_grouped_as_table_5_does() -> None:
    """Cases 1 and 3 are under 29. The other two are joined by 5 and 6, and only then can they be told apart."""
    tree, leaf, everybody = Tree(policy().attributes), np.zeros(6, dtype=np.int64), np.arange(6)
    tree.put([(0, NodeRecord(AGE, 29, 1, 2))])
    leaf[:4] = tree.route(columns(), everybody[:4])
    assert leaf[:4].tolist() == [1, 2, 1, 2]
    assert grow(tree, columns(), leaf, [(1, everybody[[0, 2]]), (2, everybody[[1, 3]])], 2) == []
    leaf[:] = tree.route(columns(), everybody)
    assert grow(tree, columns(), leaf, [(1, everybody[leaf == 1]), (2, everybody[leaf == 2])], 2) == [2]
    groups = together(dict(zip(PATIENTS, leaf.tolist(), strict=True)))
    assert groups == {frozenset(case for case in TABLE_5 if TABLE_5[case] == row) for row in TABLE_5.values()}
    for case, box in boxes(TABLE_5).items():  # and every region holds the box that table 5 prints for it
        for position in range(3):
            low, high = tree.bounds(position, leaf[[int(case) - 1]])
            assert low[0] <= box.low[position]
            assert box.high[position] <= high[0]


# -- figures 2 and 3 ------------------------------------------------------------------------------------------------

FIGURE_2 = {"a": (10, 45), "b": (30, 55), "c": (92, 10), "d": (97, 20), "e": (94, 80), "f": (96, 90)}
UPDATE = {"g": (15, 5), "h": (35, 95), "i": (70, 15), "j": (65, 85), "k": (80, 60), "l": (98, 70)}
POINTS = FIGURE_2 | UPDATE


def plane() -> Policy:
    document = {
        "table": "plane",
        "attributes": {name: {"type": "int", "min": 0, "max": 99} for name in "xy"},
        "sensitive": {"name": "s", "values": ["s", "t"], "open": ["s", "t"]},
        "privacy": {"values": "redrawn", "k": 2, "l": 2, "headroom": 0},
    }
    return build_policy(document, {}, b"plane")


def names_by_leaf(leaf: Rows) -> list[str]:
    return sorted("".join(name for name, at in zip(POINTS, leaf, strict=False) if at == node) for node in set(leaf))


def test_figure_2_six_points_make_three_regions_of_two_in_a_binary_tree() -> None:
    tree, leaf, points = Tree(plane().attributes), np.zeros(6, dtype=np.int64), np.array(list(POINTS.values()))
    grow(tree, list(points[:6].T), leaf, [(0, np.arange(6))], 2)
    assert names_by_leaf(leaf) == ["ab", "cd", "ef"]
    assert tree.size == 5  # two inner nodes and three leaves


def test_figure_3_the_update_goes_down_the_tree_and_crowded_nodes_are_parted_further() -> None:
    tree, leaf, points = Tree(plane().attributes), np.zeros(12, dtype=np.int64), np.array(list(POINTS.values()))
    columns = list(points.T)
    grow(tree, columns, leaf, [(0, np.arange(6))], 2)
    before = dict(tree.records())
    leaf[:] = tree.route(columns, np.arange(12))  # figure 3(b)
    assert names_by_leaf(leaf) == ["abgh", "cdi", "efjkl"]
    grow(tree, columns, leaf, [(int(node), np.flatnonzero(leaf == node)) for node in np.unique(leaf)], 2)
    assert before.items() <= dict(tree.records()).items()  # figure 3(c): the tree of figure 2(b), grown
    assert sorted(map(len, names_by_leaf(leaf))) == [2, 2, 2, 3, 3]  # figure 3(d): three at most, nothing left to part
    for crowd in ("abgh", "cdi", "efjkl"):  # a refinement: who was told apart stays apart
        assert set(crowd) == {name for names in names_by_leaf(leaf) for name in names if set(names) <= set(crowd)}
    tree.check_invariants()


# -- section 6 ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def halves() -> tuple[Rows, Rows]:
    """12,000 rows of Adult, and these with 6,000 more."""
    order = np.random.default_rng(SEED).permutation(30_162)
    return order[:FIRST], order[: FIRST + FIRST // 2]


def test_independent_mondrian_runs_over_adult_leave_over_two_fifths_of_the_rows_unsafe(
    halves: tuple[Rows, Rows],
) -> None:
    views = [anonymize(load_adult().points, rows, 10).view for rows in halves]
    assert unsafe_share(views[1:], 10) == 0  # either by itself is safe
    assert unsafe_share(views, 10) > 0.4


def test_the_tree_over_adult_leaves_none_unsafe_and_costs_little(halves: tuple[Rows, Rows]) -> None:
    adult = load_adult()
    steps = list(run(adult.regions_only(10, headroom=0), [adult.table(rows) for rows in halves]))
    assert unsafe_share([view_of(step, adult.row_of) for step in steps], 10) == 0
    assert [step.manifest["withheld"] for step in steps] == [0, 0]
    mondrian = anonymize(adult.points[:, :-1], halves[1], 10).discernibility
    assert steps[1].manifest["loss"]["discernibility"] <= 1.1 * mondrian
