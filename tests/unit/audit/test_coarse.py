"""The auditor on cells that lie in one another: what it accepts, and what it finds out.

docs/design.md, "G1 Cells" and "Other publishers".
"""

from collections.abc import Mapping
from typing import Any

import pytest

from shoal.core.policy.policy import build_policy
from tests.support.engines.audited import ByHand

AGES = {"ann": 10, "bob": 80, "cat": 12, "dan": 20, "eve": 30, "fay": 40, "gus": 60, "hal": 90, "ida": 55}
CELLS = {"all": (0, 99), "left": (0, 49), "right": (50, 99), "young": (0, 24), "older": (25, 49)}
# ann, bob and ida started in the coarse cell; the others in the two leaves below it
COARSE = ("ann", "bob", "ida")
LEFT = ("cat", "dan", "eve", "fay")
FIRST = {**dict.fromkeys(COARSE, "all"), **dict.fromkeys(LEFT, "left"), "gus": "right", "hal": "right"}
SPLIT = {**FIRST, "cat": "young", "dan": "young", "eve": "older", "fay": "older"}

UNDER_K = "G1: a region is shared by fewer than k people"
NOT_FINER = "G1: a person's region is not inside their earlier one"
TOLD_APART = "G1: two people once told apart share a region"
CARRIED = "G6: a carried group's cells are not its earlier ones or finer"


@pytest.fixture
def desk() -> ByHand:
    document = {
        "table": "clinic",
        "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
        "sensitive": {"name": "disease", "values": ["flu", "cold"], "open": ["flu", "cold"]},
        "privacy": {"values": "redrawn", "k": 2, "l": 2},
    }
    desk = ByHand(build_policy(document, {}, b"clinic"))
    for person, age in AGES.items():
        desk.tell({"op": "insert", "id": person, "qid": {"age": age}, "sensitive": "flu"})
    return desk


def publish(desk: ByHand, cells: Mapping[str, str], formed: int = 1) -> set[str]:
    """Two groups: those who started in the coarse cell, with cat; and all others. Returns what is broken."""
    regions = {person: (cell, _region(cell)) for person, cell in cells.items()}
    people = [person for person in AGES if person in cells]
    parts = [[p for p in people if (p in (*COARSE, "cat")) == is_first] for is_first in (True, False)]
    groups = {f"g{2 * formed + n}": (formed, part, {"flu": len(part)}) for n, part in enumerate(parts)}
    desk.publish(groups, regions)
    return desk.sentences()


def _region(cell: str) -> dict[str, Any]:
    low, high = CELLS[cell]
    return {"age": {"min": low, "max": high}}


def test_a_coarse_cell_over_leaves_is_right_as_long_as_everybody_stays_or_gets_finer(desk: ByHand) -> None:
    assert publish(desk, FIRST) == set()
    assert publish(desk, FIRST) == set()
    assert publish(desk, SPLIT) == set()  # of the first group, only cat's cell is finer


def test_a_coarse_region_with_fewer_than_k_rows_is_found(desk: ByHand) -> None:
    assert publish(desk, {person: cell for person, cell in FIRST.items() if person not in COARSE[1:]}) == {UNDER_K}


def test_a_published_row_made_coarser_later_is_found(desk: ByHand) -> None:
    publish(desk, FIRST)
    assert NOT_FINER in publish(desk, {**FIRST, "dan": "all"}, formed=2)


def test_a_row_let_down_from_a_coarse_cell_to_a_leaf_is_found(desk: ByHand) -> None:
    publish(desk, FIRST)
    assert TOLD_APART in publish(desk, {**FIRST, "ann": "left"}, formed=2)


def test_that_a_row_of_a_carried_group_came_down_is_found_by_anyone(desk: ByHand) -> None:
    publish(desk, FIRST)
    assert CARRIED in publish(desk, {**FIRST, "ann": "left"})


def test_that_a_row_of_a_carried_group_went_up_is_found_by_anyone(desk: ByHand) -> None:
    publish(desk, FIRST)
    assert CARRIED in publish(desk, {**FIRST, "cat": "all"})


def test_a_coarse_region_that_no_tree_with_these_leaves_has_is_found(
    desk: ByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CELLS, "all", (0, 80))
    assert publish(desk, FIRST) == {"G1: a region overlaps another without one holding the other"}
