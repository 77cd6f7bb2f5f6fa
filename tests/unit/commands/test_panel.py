"""A panel, one row per person and period, becomes releases: every period is a state of the table, and a release."""

import json
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.streams.cli import main
from shoal.streams.errors import InputError
from shoal.streams.files.event_lines import open_events, read_lines
from shoal.streams.files.formats.format import FormatChoice
from shoal.streams.files.mapping.period import period_of_file, read_period
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.files.rejects import rejects_beside
from shoal.streams.files.true_tables import tables_at_releases
from tests.support.panel import MAPPING, make_panel, read_rows, split_by_year

CANARY = "canary-7f3a"
HEADER = "pid,year,born,sex,educ,region,hours,job\n"


def run(folder: Path, *files: Path, out: str = "out", mapping: str = "map.yaml", more: tuple[str, ...] = ()) -> int:
    names = [str(folder / "policy.yaml"), *map(str, files or (folder / "panel.csv",))]
    return main(["replay", *names, "--map", str(folder / mapping), "--out", str(folder / out), "--seed", "s", *more])


def published(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def manifests(out: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(out.glob("release-*/manifest.json"))]


def events(folder: Path, text: str, mapping: str = MAPPING) -> list[dict[str, Any] | None]:
    (folder / "map.yaml").write_text(mapping)
    (folder / "panel.csv").write_text(text)
    policy = load_policy(folder / "policy.yaml")
    with open_events(policy, str(folder / "panel.csv"), FormatChoice(mapping=folder / "map.yaml")) as lines:
        return [line.event for line in lines]


def test_every_period_is_the_table_as_the_file_has_it_and_a_release(tmp_path: Path) -> None:
    panel = make_panel(tmp_path)
    policy, choice = load_policy(tmp_path / "policy.yaml"), FormatChoice(mapping=tmp_path / "map.yaml")
    rows = [row for row in read_rows(panel) if row["job"]]
    for number, found in enumerate(tables_at_releases(policy, read_lines(policy, [str(panel)], choice))):
        year = 2016 + min(number, 5)
        expected = {row["pid"]: int(row["job"]) for row in rows if row["year"] == str(year)}
        leaves = policy.sensitive.hierarchy.leaves
        assert {person: int(leaves[min(one.values)]) for person, one in found.table.items()} == expected
        assert found.rejected == 0
    assert run(tmp_path) == 0
    assert [one["published_at"] for one in manifests(tmp_path / "out")] == [
        f"{year}-01-01T00:00:00Z" for year in range(2016, 2022)
    ]
    assert rejects_beside(tmp_path / "out").read_text() == ""


def test_one_file_for_each_period_makes_the_same_releases_in_whatever_order(tmp_path: Path) -> None:
    files = split_by_year(make_panel(tmp_path))
    (tmp_path / "by-name.yaml").write_text(MAPPING.replace("period: year", "period: {file_name: true}"))
    assert run(tmp_path) == 0
    assert run(tmp_path, *files, out="by-name", mapping="by-name.yaml") == 0
    assert run(tmp_path, *files, out="by-column") == 0
    whole = published(tmp_path / "out")
    assert "release-0006/groups.jsonl" in whole
    assert published(tmp_path / "by-name") == published(tmp_path / "by-column") == whole


def test_a_panel_is_audited_against_itself(tmp_path: Path) -> None:
    files = split_by_year(make_panel(tmp_path))
    assert run(tmp_path, more=("--audit", str(tmp_path / "private"))) == 0
    policy, out = load_policy(tmp_path / "policy.yaml"), tmp_path / "out"
    for sources in ([tmp_path / "panel.csv"], files):
        report = shoal.audit(policy, out, private=tmp_path / "private", events=sources, mapping=tmp_path / "map.yaml")
        assert report.is_kept
    text = files[0].read_text().splitlines(keepends=True)
    files[0].write_text("".join(text[:-30]))
    with_less = shoal.audit(policy, out, private=tmp_path / "private", events=files, mapping=tmp_path / "map.yaml")
    assert not with_less.is_kept


def test_only_what_differs_is_an_event(tmp_path: Path) -> None:
    make_panel(tmp_path, 1)
    text = HEADER + "a,2020,1980-06-01,1,1,,,5\nb,2020,1980-06-01,2,NA,,,6\na,2021,1980-06-01,1,1,,,5\n"
    text += "c,2021,1980-06-01,2,1,,,6\n"
    qid = {"age": 39, "sex": "male", "educ": "1"}
    assert events(tmp_path, text) == [
        {"op": "upsert", "id": "a", "qid": qid, "sensitive": ["5"]},
        {"op": "upsert", "id": "b", "qid": {**qid, "sex": "female", "educ": "unknown"}, "sensitive": ["6"]},
        {"op": "release", "at": "2020-01-01T00:00:00Z"},
        {"op": "delete", "id": "b"},
        {"op": "upsert", "id": "a", "qid": {**qid, "age": 40}, "sensitive": ["5"]},
        {"op": "upsert", "id": "c", "qid": {**qid, "age": 40, "sex": "female"}, "sensitive": ["6"]},
        {"op": "release", "at": "2021-01-01T00:00:00Z"},
    ]
    frozen = MAPPING + "file: {day: 2020-12-31}\n"
    assert [event and event.get("id") for event in events(tmp_path, text, frozen)][3:] == ["b", "c", None]


def test_a_rejected_row_says_nothing_and_its_person_stays_as_they_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_panel(tmp_path, 1)
    rows = "".join(f"p{n},2020,1980-06-01,1,1,,,{1 + n % 12}\n" for n in range(24))
    rows += "".join(f"p{n},2021,1980-06-01,1,1,,,{1 + n % 12}\n" for n in range(1, 24))
    wrong = f"p0,2021,1980-06-01,1,{CANARY},,,1\np1,2021,1980-06-01,1,1,,,1\nx,{CANARY},1980-06-01,1,1,,,1\n"
    (tmp_path / "panel.csv").write_text(HEADER + rows + wrong)
    assert run(tmp_path) == 0
    assert [one["people"] for one in manifests(tmp_path / "out")] == [24, 24]
    assert [json.loads(line) for line in rejects_beside(tmp_path / "out").read_text().splitlines()] == [
        {"line": 51, "op": "upsert", "reason": "bad-time", "field": "period"},
        {"line": 49, "op": "upsert", "reason": "unknown-node", "field": "qid.educ"},
        {"line": 50, "op": "upsert", "reason": "already-present", "field": "id"},
    ]
    said = capsys.readouterr()
    assert "3 events had no effect" in said.err
    assert "1 × unknown-node (qid.educ) in upsert, line 49" in said.err
    assert CANARY not in said.out + said.err


def test_a_reject_names_its_file_where_there_are_several(tmp_path: Path) -> None:
    files = split_by_year(make_panel(tmp_path))
    with files[2].open("a") as file:
        file.write("new,2019,1980-06-01,3,1,,,1\n")
    assert run(tmp_path, *files) == 0
    (reject,) = [json.loads(line) for line in rejects_beside(tmp_path / "out").read_text().splitlines()]
    assert (reject["file"], reject["reason"], reject["field"]) == (str(files[2]), "unknown-node", "qid.sex")


def test_a_file_of_which_every_row_is_rejected_is_wrong_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    panel = make_panel(tmp_path)
    panel.write_text(panel.read_text().replace(",1,", ",one,").replace(",2,", ",two,"))
    assert run(tmp_path) == 2
    said = capsys.readouterr().err
    assert "nothing could be released: no event of" in said
    assert "unknown-node (qid.sex) in upsert" in said


def test_a_panel_goes_on_with_all_of_its_periods_and_not_with_less(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = split_by_year(make_panel(tmp_path))[::-1]
    state = ("--state", str(tmp_path / "state"))
    assert run(tmp_path, out="whole") == 0
    assert run(tmp_path, *files[:4], out="parts", more=state) == 0
    assert run(tmp_path, *files[4:], out="parts", more=state) == 2
    assert "give all periods of a panel again" in capsys.readouterr().err
    assert run(tmp_path, *files, out="parts", more=state) == 0
    assert published(tmp_path / "parts") == published(tmp_path / "whole")


@pytest.mark.parametrize(
    ("text", "at", "order"),
    [
        ("2019", "2019-01-01T00:00:00Z", "year"),
        ("2019.0", "2019-01-01T00:00:00Z", "year"),
        ("2019-Q3", "2019-07-01T00:00:00Z", "quarter"),
        ("2019-11", "2019-11-01T00:00:00Z", "month"),
        ("2019-11-05", "2019-11-05T00:00:00Z", "day"),
        ("2019-11-05T03:00:00+01:00", "2019-11-05T03:00:00+01:00", "time"),
        ("7", None, "wave"),
    ],
)
def test_a_period_is_a_year_a_date_or_a_number(text: str, at: str | None, order: str) -> None:
    found = read_period(text)
    assert found is not None
    assert (found.at, found.form) == (at, order)


def test_what_is_no_period_is_none() -> None:
    assert [read_period(text) for text in ("", "2019-13", "2019-02-30", "spring", "-3", "1.5")] == [None] * 6
    names = ("2019.csv", "data/people_2019-03.csv", "wave12-people.csv", "people.csv")
    assert [found and found.text for found in map(period_of_file, names)] == ["2019", "2019-03", "12", None]


def test_waves_have_an_order_and_no_time_and_an_age_then_needs_a_day(tmp_path: Path) -> None:
    panel = make_panel(tmp_path)
    for year in range(2016, 2022):
        panel.write_text(panel.read_text().replace(f",{year},", f",{year - 2007},"))
    with pytest.raises(InputError, match="is a number and names no day, which an age needs"):
        shoal.replay(load_policy(tmp_path / "policy.yaml"), panel, mapping=tmp_path / "map.yaml")
    (tmp_path / "map.yaml").write_text(MAPPING + "file: {day: 2021-12-31}\n")
    run = shoal.replay(load_policy(tmp_path / "policy.yaml"), panel, mapping=tmp_path / "map.yaml")
    assert [release.manifest["published_at"] for release in run.releases] == [None] * 6


def test_a_panel_has_no_ops(tmp_path: Path) -> None:
    make_panel(tmp_path)
    with pytest.raises(InputError, match="goes with events, and a panel has none"):
        events(tmp_path, HEADER, MAPPING + "file: {op: sex}\n")
