"""The model of who has what: what it learns from groups alone, and what it says of releases that show little."""

import random
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from shoal.core.errors import CoreError
from shoal.core.measure import field
from shoal.core.measure.by_cell import count_by_cell, count_everywhere
from shoal.core.measure.count import Answers, Count
from shoal.core.measure.cross_table import cross_table, read_head
from shoal.core.measure.entries import add_up, entries_of, sides_of
from shoal.core.measure.likely import Unsure, likely_range
from shoal.core.measure.query import draw_queries
from shoal.core.measure.question import question_of, read_question
from shoal.core.measure.release_reader import ReleaseColumns, read_columns
from tests.support.engines.series import clinic_policy
from tests.unit.measure.test_loss import CELLS, cell, group

_REDRAWN = clinic_policy()
_LASTING = replace(_REDRAWN, values="lasting")


def _region(low: int, high: int) -> dict[str, Any]:
    everywhere = {"weight": {"min": 0.0, "max": 200.0}, "sex": {"nodes": ["*"]}, "zip": {"nodes": ["*"]}}
    return {"age": {"min": low, "max": high}, **everywhere}


def told(young_share: float, groups: int = 60, seed: int = 1) -> ReleaseColumns:
    """Groups of six with three asthma and three gout, of whom so many are young; the more are, the more have asthma.

    Truly everyone who is young has asthma in `young_share` of the cases, and each other value is gout. Beside them are
    groups of one age each, of which the counts tell how frequent asthma is there.
    """
    draw = random.Random(seed)
    records = [cell("c1", _region(0, 49), 600), cell("c2", _region(50, 99), 600)]
    for number in range(groups):
        young = draw.choice([1, 2, 4, 5])
        asthma = sum(draw.random() < (young_share if at < young else 1 - young_share) for at in range(6))
        shown = {"asthma": asthma, "gout": 6 - asthma}
        records.append(group(number, {"c1": young, "c2": 6 - young}, {name: n for name, n in shown.items() if n}))
    return read_columns(_REDRAWN, records)


def ask(release: ReleaseColumns, method: Any = "model", **where: object) -> Count:
    return Answers(release).count(read_question(release.policy, where), method)


def test_groups_that_lie_elsewhere_and_show_other_values_tell_who_has_what() -> None:
    release = told(young_share=0.9)
    everyone, young = ask(release, disease="asthma"), ask(release, age=(0, 49), disease="asthma")
    rows = float(release.cell_rows_count[release.cell_rows_cell == 0].sum())
    truth = 0.9 * rows
    even = ask(release, "even", age=(0, 49), disease="asthma")
    assert everyone.low == everyone.estimate == everyone.high
    assert abs(young.estimate - truth) < abs(even.estimate - truth) / 2
    assert young.likely[0] < truth < young.likely[1]


def test_where_values_lie_alike_the_model_says_what_even_says() -> None:
    release = told(young_share=0.5)
    found = [ask(release, method, age=(0, 49), disease="asthma").estimate for method in ("model", "even")]
    assert found[0] == pytest.approx(found[1], rel=0.12)


def test_entries_add_up_to_the_rows_and_the_values_of_every_group() -> None:
    shown = {"flu": 2, "stomach": 1, "*": 2}
    groups = [group(1, {"c1": 3, "c2": 1}, shown, spare=1), group(2, {"c2": 2}, {"gout": 2})]
    sides = sides_of(read_columns(_REDRAWN, [*CELLS, *groups]))
    assert sides.shown.tolist() == [5, 2]
    assert sides.real.tolist() == [4, 2]
    entries = entries_of(sides, np.arange(2))
    assert len(entries.row) == 2 * (1 + 2 + 1) + 1  # the raised value may be either of two leaves
    found = entries.fit(np.ones(len(entries.row)), rounds=8)
    assert add_up(entries.row, found, 3) == pytest.approx([3, 1, 2])
    assert add_up(entries.value, found, 4) == pytest.approx([1.6, 0.8, 1.6, 2])


def test_what_is_suppressed_is_counted_where_it_may_be() -> None:
    records = [*CELLS, group(1, {"c1": 4}, {"gout": 2, "lupus": 2}), group(2, {"c1": 3}, {"*": 3})]
    lasting = read_columns(_LASTING, records)
    assert ask(lasting, disease="gout").estimate == pytest.approx(2 + 3 / 2)
    assert ask(lasting, disease="flu").estimate == 0  # open values are always shown
    with_open = read_columns(_LASTING, [*records, group(3, {"c1": 8}, {"flu": 8})])
    assert ask(with_open, disease="flu").estimate == 8


def test_the_ranges_hold_one_another_whatever_is_asked() -> None:
    draw = random.Random(7)
    labels = _REDRAWN.sensitive.hierarchy.labels
    for policy in (_REDRAWN, _LASTING):
        groups = [
            group(number, {"c1": 2, "c2": 2}, dict.fromkeys(draw.sample(labels, 4), 1), spare=0) for number in range(12)
        ]
        answers = Answers(read_columns(policy, [*CELLS, *groups]))
        for query in draw_queries(policy, count=200):
            found = answers.count(question_of(query))
            assert found.low <= found.likely[0] <= found.estimate <= found.likely[1] <= found.high
            assert answers.estimates([query])[0] >= 0


@pytest.mark.parametrize("policy", [_REDRAWN, _LASTING], ids=["redrawn", "lasting"])
@pytest.mark.parametrize(
    "records",
    [
        [],
        CELLS,
        [*CELLS, group(1, {"c1": 4}, {"*": 4})],
        [*CELLS, group(1, {"c2": 1}, {"flu": 1})],
        [CELLS[1], group(1, {"c2": 5}, {"hiv": 1})],
        [*CELLS, group(1, {"c1": 2}, {"flu": 1, "gout": 1}, spare=0), group(2, {"c2": 2}, {"airways": 2})],
    ],
    ids=["nobody", "no groups", "only *", "one row", "a clique", "raised"],
)
def test_a_release_that_shows_nearly_nothing_is_answered_without_a_warning(policy: Any, records: list[bytes]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answers = Answers(read_columns(policy, records))
        for query in draw_queries(policy, count=40):
            for method in ("model", "even"):
                found = answers.count(question_of(query), method)
                assert np.isfinite([found.estimate, *found.likely]).all()
        head = read_head(answers, ["age", "sex"], None, {"zip": "z11"})
        assert all(np.isfinite(line.people) for line in cross_table(answers, head, "model"))


def test_leaves_that_need_too_much_memory_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    release = told(young_share=0.9)
    names = ("asthma", "gout")
    apart = [ask(release, disease=name).estimate for name in names]
    monkeypatch.setattr(field, "PLACES", 1)
    answers = Answers(release)
    together = [answers.field.by_cell(code, code + 1).sum() for code in (2, 6)]
    assert len(answers.field.below) == 2
    assert together == pytest.approx(apart, rel=0.05)


def test_portions_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    release = told(young_share=0.8)
    whole = Answers(release).field.below
    monkeypatch.setattr(field, "AT_ONCE", 10)
    assert Answers(release).field.below == pytest.approx(whole, abs=1e-4)


def test_a_likely_range_is_wider_where_more_is_open_and_never_leaves_what_is_certain() -> None:
    def width(**more: float) -> float:
        same = {"values": 4.0, "places": 0.0, "hidden": 0.0, "even": 20.0, "shares": 20.0, "variety": 1.0} | more
        unsure = Unsure(**{name: np.float64(much) for name, much in same.items()})
        low, high = likely_range(np.float64(20), np.float64(0), np.float64(100), unsure)
        assert 0 <= low < 20 < high <= 100
        assert high - 20 > 20 - low  # there is more room above
        return float(high - low)

    for name, much in (("values", 30), ("places", 10), ("hidden", 10), ("even", 40), ("shares", 40)):
        assert width(**{name: much}) > width()
    assert width(values=30, variety=10) < width(values=30)


def test_the_counts_of_all_cells_are_those_of_each_cell_asked_alone() -> None:
    for policy in (_REDRAWN, _LASTING):
        release = replace(told(young_share=0.8), policy=policy)
        answers = Answers(release)
        found = count_by_cell(answers)
        assert set(zip(found.cell.tolist(), found.leaf.tolist(), strict=True)) == {(0, 2), (0, 6), (1, 2), (1, 6)}
        for cell_number, leaf, *figures in zip(*(column.tolist() for column in found), strict=True):
            name, ages = policy.sensitive.hierarchy.leaves[leaf], [(0, 49), (50, 99)][cell_number]
            alone = answers.count(read_question(policy, {"age": ages, "disease": name}))
            assert figures == pytest.approx([alone.estimate, *alone.likely, alone.low, alone.high], rel=1e-4)
    everywhere = count_everywhere(answers)
    assert everywhere[2] == answers.count(read_question(_LASTING, {"disease": "asthma"}))
    nobody = Answers(read_columns(_LASTING, []))
    assert (len(count_by_cell(nobody).cell), count_everywhere(nobody)) == (0, {})


def test_a_cross_table_has_a_line_for_each_bin_and_value() -> None:
    release = told(young_share=0.9)
    answers = Answers(release)
    lines = list(cross_table(answers, read_head(answers, {"age": [50]}, ["asthma", "chronic"], {}), "model"))
    assert [(line.bins, line.value) for line in lines] == [
        (("0-49",), "asthma"),
        (("0-49",), "chronic"),
        (("50-99",), "asthma"),
        (("50-99",), "chronic"),
    ]
    assert lines[0].answer == ask(release, age=(0, 49), disease="asthma")
    assert [line.people for line in lines] == [600] * 4
    weights = read_head(answers, {"weight": [100]}, "asthma", {"sex": "male"})
    assert [part.label for _, bins in weights.bins for part in bins] == ["[0.0,100.0)", "[100.0,200.0]"]
    assert [part.label for part in read_head(answers, "zip", None, {}).values] == [
        "airways",
        "stomach",
        "infection",
        "chronic",
    ]


@pytest.mark.parametrize(
    ("rows", "values", "where", "said"),
    [
        ([], None, {}, "at least one attribute"),
        ("height", None, {}, "has no attribute height"),
        ("age", None, {"age": 3}, "leave the condition out"),
        ("age", None, {"disease": "flu"}, "named with `values`"),
        ("age", ["canary-7f3a"], {}, "disease has no such label"),
        ({"age": ["a"]}, None, {}, "a list of numbers"),
        ({"age": list(range(100)), "weight": list(range(200)), "zip": None}, None, {}, "100,000 is the most"),
    ],
)
def test_a_wrong_cross_table_is_one_sentence(rows: Any, values: Any, where: Any, said: str) -> None:
    with pytest.raises(CoreError, match=said) as caught:
        read_head(Answers(read_columns(_REDRAWN, CELLS)), rows, values, where)
    assert "canary" not in str(caught.value)
