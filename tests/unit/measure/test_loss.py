"""Losses of a release, worked out by hand and against what the engine itself says."""

import json
from random import Random
from typing import Any

import pytest

from shoal.core.errors import CoreError
from shoal.core.measure.loss import qid_loss, sensitive_loss
from shoal.core.measure.metrics import METRICS, measure_release
from shoal.core.measure.release_reader import read_columns
from tests.support.engines.series import DISEASES, ZIPS, clinic_policy, run_series
from tests.support.judges.series import Table

_POLICY = clinic_policy()

_REGION = {
    "age": {"min": 10, "max": 20},
    "weight": {"min": 50.0, "below": 100.0},
    "sex": {"nodes": ["female"]},
    "zip": {"nodes": ["z1*"]},
}
_EVERYWHERE = {
    "age": {"min": 0, "max": 99},
    "weight": {"min": 0.0, "max": 200.0},
    "sex": {"nodes": ["*"]},
    "zip": {"nodes": ["*"]},
}


def cell(name: str, region: dict[str, Any], people: int = 9) -> bytes:
    return json.dumps({"table": "clinic", "release": 1, "cell": name, "region": region, "people": people}).encode()


CELLS = [cell("c1", _REGION, 30), cell("c2", _EVERYWHERE, 40)]


def beside_c1(width: float) -> float:
    """The share of c2's people taken to lie in c1's part of an attribute, which is this much of it: in two rounds."""
    return (30 + 40 * (30 + 40 * width) / 70) / 70


def group(number: int, cells: dict[str, int], sensitive: dict[str, int], spare: int = 0) -> bytes:
    """A group of either model: `spare` of its values have no row."""
    head = {"table": "clinic", "release": 1, "group": f"g{number}", "formed": 1, "changed": 1}
    shown = {"cells": cells, "sensitive": sensitive, "counterfeits": spare, "vacant": spare}
    return json.dumps(head | shown).encode()


def test_losses_are_those_worked_out_by_hand() -> None:
    groups = [group(1, {"c1": 3, "c2": 1}, {"flu": 3, "*": 1}), group(2, {"c1": 2}, {"gout": 2})]
    release = read_columns(_POLICY, [*CELLS, *groups])
    found = measure_release(release)
    assert (release.rows, len(release.group_rows)) == (6, 2)
    assert (found["average_group"], found["median_group"], found["largest_group"]) == (3.0, 3.0, 4)
    assert found["discernibility"] == 5 * 5 + 1
    assert found["hidden_share"] == 1 / 6
    narrow = (10 / 99 + 50 / 200 + 0 + 3 / 5) / 4
    assert found["ncp"] == pytest.approx((5 * narrow + 1) / 6)
    narrow_values = 10 / 100 + 50 / 200 + 0 + 2 / 5
    wide_values = 99 / 100 + 1 + 1 / 2 + 4 / 5
    assert qid_loss(release) == pytest.approx(5 * narrow_values + wide_values)
    assert sensitive_loss(release) == pytest.approx(7 / 8)
    assert found["qid_loss"] == pytest.approx(qid_loss(release) / 6)
    assert found["sensitive_loss"] == pytest.approx(7 / 8 / 6)


def test_a_release_without_rows_has_no_loss() -> None:
    found = measure_release(read_columns(_POLICY, []))
    assert found == dict.fromkeys(METRICS)


def test_what_is_read_back_has_the_losses_that_the_manifest_states() -> None:
    random = Random(5)
    tables: list[Table] = []
    people: dict[str, tuple[dict[str, Any], frozenset[str]]] = {}
    for _ in range(3):
        for _ in range(150):
            qid = {
                "age": random.randrange(100),
                "weight": round(random.uniform(0, 200), 1),
                "sex": random.choice(["female", "male"]),
                "zip": random.choice(list(ZIPS)),
            }
            people[f"p{len(people)}"] = (qid, frozenset(random.sample(DISEASES, random.choice([1, 1, 2]))))
        tables.append(dict(people))
    for _, made, _ in run_series(clinic_policy(k=4), tables):
        release = read_columns(_POLICY, made.release.records)
        found, stated = measure_release(release), json.loads(made.release.manifest)
        assert (release.rows, len(release.group_rows)) == (stated["rows"], stated["groups"])
        assert found["ncp"] == pytest.approx(stated["loss"]["ncp"])
        assert found["discernibility"] == stated["loss"]["discernibility"]
        assert found["average_group"] == pytest.approx(stated["loss"]["average_group"])


@pytest.mark.parametrize(
    "wrong",
    [
        b"no JSON",
        b"[]",
        b'{"group": "g1"}',
        group(1, {"c1": 1}, {"no such value": 1}),
        group(1, {"c9": 1}, {"flu": 1}),
        cell("c9", {**_REGION, "zip": {"nodes": ["z11", "z13"]}}),
        cell("c9", {"age": {"min": 1, "max": 2}}),
    ],
)
def test_a_record_that_is_not_of_this_table_is_refused_without_its_content(wrong: bytes) -> None:
    with pytest.raises(CoreError, match=r"^record 4 is neither a cell nor a group of the table clinic$"):
        read_columns(_POLICY, [*CELLS, group(1, {"c1": 1}, {"flu": 1}), wrong])


def test_case_ids_count_as_rows() -> None:
    listed = group(1, {}, {"flu": 3}).replace(b'"cells": {}', b'"cells": {"c1": ["a", "b"], "c2": ["c"]}')
    assert read_columns(_POLICY, [*CELLS, listed]).rows_by_cell.tolist() == [2, 1]
