"""Other publishers' tables from files: as they are printed, as Shoal's own releases, through replay, and audited."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from shoal.core.overlap.external import External, ExternalGroup, parse_external
from shoal.streams.cli import main
from shoal.streams.errors import InputError
from shoal.streams.files.formats.external import read_external
from tests.golden.test_baig import HOSPITAL_1, HOSPITAL_2, hospital_policy

TABLE_1B = """group,age,sex,disease
1,15-25,male,B
1,15-25,male,B
1,15-25,male,C
2,40-50,*,G
2,40-50,*,H
2,40-50,*,H
"""
TABLE_2B = """age, sex, disease
15-30, male, M
15-30, male, Q
15-30, male, M
35-45, female, R
35-45, female, S
35 - 45, female, T
"""
POLICY = """table: hospital-3
attributes:
  age: {type: int, min: 0, max: 100}
  sex: {type: category, values: [female, male]}
sensitive: {name: disease, values: [B, C, G, H, L, M, Q, R, S, T, W]}
privacy: {values: redrawn, k: 4, l: 2, overlap: 3, strategy: {name: adaptive, releases: 2}}
"""


def groups_in(path: Path) -> Any:
    policy = hospital_policy()
    found: list[ExternalGroup] = []
    for line in read_external(policy, path, "hospital"):
        read = parse_external(line.event, policy)
        assert isinstance(read, External)
        found += read.groups
    return found


@pytest.mark.parametrize(("text", "expected"), [(TABLE_1B, HOSPITAL_1), (TABLE_2B, HOSPITAL_2)])
def test_tables_as_printed_are_the_groups_they_show(tmp_path: Path, text: str, expected: Any) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    read = parse_external({"op": "external", "publisher": "hospital", "groups": expected}, hospital_policy())
    assert isinstance(read, External)
    assert sorted(groups_in(path)) == sorted(read.groups)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("age,disease\ncanary,B\n", "line 2, has no range in column age"),
        ("age,disease\n15-25,canary\n", "line 2, does not fit the policy: groups.sensitive is unknown-node"),
        ("age,disease\n15-225,B\n", "line 2, does not fit the policy: groups.region.age is out-of-domain"),
        ("age,canary\n15-25,B\n", "must have a column disease"),
        ("age,disease,canary\n15-25,B,1\n", "must have a column disease"),
        ("age,disease,age\n15-25,B,20-30\n", "each once"),
        ("age,disease\n15-25,B,canary\n", "line 2, does not have as many fields"),
        ("age,sex,disease\n15-25,*,B\n15-25,canary\n", "line 3, does not have as many fields"),
        ("age,disease\n", "has only a header"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_by_its_line_and_nothing_of_it_is_said(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=said) as error:
        groups_in(path)
    assert "canary" not in str(error.value)


def test_a_folder_without_a_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no release"):
        groups_in(tmp_path)


CELL = {"table": "t", "release": 1, "cell": "c1", "region": {"age": {"min": 3, "max": 9}}, "people": 4}
GROUP = {"table": "t", "release": 1, "group": "g1", "cells": {"c1": 4}, "sensitive": {"B": 4}}


def write_release(folder: Path, cell: dict[str, Any], group: dict[str, Any], manifest: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / "cells.jsonl").write_text(json.dumps(cell) + "\n")
    (folder / "groups.jsonl").write_text(json.dumps(group) + "\n")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_a_group_has_the_regions_of_its_cells(tmp_path: Path) -> None:
    (group,) = groups_in(write_release(tmp_path / "release-0001", CELL, GROUP, {"format": 1}))
    expected = [{"region": CELL["region"], "sensitive": {"B": 4}}]
    read = parse_external({"op": "external", "publisher": "hospital", "groups": expected}, hospital_policy())
    assert isinstance(read, External)
    assert [group] == list(read.groups)


@pytest.mark.parametrize(
    ("cell", "group", "manifest", "said"),
    [
        (CELL, GROUP, {}, "is in format unknown, and this version of Shoal reads format 1 only"),
        ({"canary": 1}, GROUP, {"format": 1}, r"cells\.jsonl, line 1, is not a cell of a release"),
        (CELL, {**GROUP, "cells": {"canary": 4}}, {"format": 1}, r"groups\.jsonl, line 1, names a cell that no"),
        (CELL, {"canary": 1}, {"format": 1}, r"groups\.jsonl, line 1, is not a group of a release"),
    ],
)
def test_a_release_that_cannot_be_read_is_refused_by_its_line(
    tmp_path: Path, cell: dict[str, Any], group: dict[str, Any], manifest: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said) as error:
        groups_in(write_release(tmp_path / "release-0001", cell, group, manifest))
    assert "canary" not in str(error.value)


def people(count: int, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {
            "op": "insert",
            "id": f"p{number}",
            "qid": {"age": rng.randint(0, 100), "sex": rng.choice(["female", "male"])},
            "sensitive": rng.choice("BCGHLMQRSTW"),
        }
        for number in range(count)
    ]


def replayed(tmp_path: Path, name: str, events: list[Any]) -> list[str]:
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    paths = {part: str(tmp_path / f"{name}{part}") for part in (".jsonl", "-out", "-audit", "-state")}
    policy = str(tmp_path / "policy.yaml")
    assert (
        main(["replay", policy, paths[".jsonl"], "--out", paths["-out"], "--audit", paths["-audit"], "--seed", name])
        == 0
    )
    return [policy, paths["-out"], "--audit", paths["-audit"], "--events", paths[".jsonl"], "--json"]


def test_a_release_beside_another_deployments_releases_keeps_every_promise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = people(150, seed=1)
    replayed(tmp_path, "theirs", [*theirs, {"op": "release"}, {"op": "delete", "id": "p3"}, {"op": "release"}])
    publication = [line.event for line in read_external(hospital_policy(), tmp_path / "theirs-out", "theirs")]
    assert publication
    mine = [{**one, "id": f"m{place}"} for place, one in enumerate(theirs[:60])] + people(90, seed=2)
    events = [
        *mine,
        {"op": "release"},
        *publication,
        {"op": "release"},
        {"op": "delete", "id": "p5"},
        {"op": "release"},
    ]
    arguments = replayed(tmp_path, "mine", events)
    capsys.readouterr()
    assert main(["audit", *arguments]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["promises"]["G5"] == {"verdict": "kept", "broken": []}
    found = report["private"]["attacks"]["composition"]
    assert found["here"]["exposed"] == found["here"]["few"] == 0
    assert found["naive"]["exposed"] > 0
    assert found["here"]["overlapping"] > 50


def test_a_series_that_never_looked_is_found_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = replayed(tmp_path, "mine", [*people(150, seed=2), {"op": "release"}])
    groups = [
        {"region": {"age": {"min": low, "max": low + 9}}, "sensitive": {"B": 1, "C": 1, "G": 1, "H": 1, "L": 2}}
        for low in range(0, 100, 10)
    ]
    path = tmp_path / "others.jsonl"
    path.write_text(json.dumps({"op": "external", "publisher": "theirs", "groups": groups}) + "\n")
    capsys.readouterr()
    assert main(["audit", *arguments, "--external", str(path)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["promises"]["G5"]["verdict"] == "broken"
    assert report["private"]["attacks"]["composition"]["here"]["few"] > 0


def test_a_state_brings_other_publishers_tables_back(tmp_path: Path) -> None:
    groups = [{"region": {}, "sensitive": dict.fromkeys("BCGHLM", 1)}]
    first = [*people(80, seed=3), {"op": "external", "publisher": "theirs", "groups": groups}, {"op": "release"}]
    later = [{**one, "id": f"later-{place}"} for place, one in enumerate(people(40, seed=4))] + [{"op": "release"}]
    (tmp_path / "policy.yaml").write_text(POLICY)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    files = []
    for name, events in (("all", [*first, *later]), ("first", first), ("later", later)):
        files.append(tmp_path / f"{name}.jsonl")
        files[-1].write_text("".join(json.dumps(event) + "\n" for event in events))
    common = ["--seed", "secret"]
    policy = str(tmp_path / "policy.yaml")
    assert main(["replay", policy, str(files[0]), "--out", str(whole), *common]) == 0
    for file in files[1:]:
        state = ["--state", str(tmp_path / "state")]
        assert main(["replay", policy, str(file), "--out", str(parts), *common, *state]) == 0
    for release in ("release-0001", "release-0002"):
        for name in ("cells.jsonl", "groups.jsonl", "manifest.json"):
            assert (whole / release / name).read_bytes() == (parts / release / name).read_bytes()


@pytest.mark.parametrize("kind", ["folder", "csv"])
def test_what_others_published_can_be_written_as_events_replayed_and_audited_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    replayed(tmp_path, "theirs", [*people(150, seed=1), {"op": "release"}])
    source, events = tmp_path / "theirs-out", tmp_path / "others.jsonl"
    if kind == "csv":
        source = tmp_path / "table.csv"
        source.write_text("age,sex,disease\n" + "".join(f"20-60,*,{disease}\n" for disease in "BCGHLM"))
    policy = str(tmp_path / "policy.yaml")
    other = ["--external", str(source), "--publisher", "theirs", "--to", str(events)]
    assert main(["produce", policy, *other]) == 0
    mine = people(150, seed=2)
    beside = [*mine, *(json.loads(line) for line in events.read_text().splitlines()), {"op": "release"}]
    verdicts = []
    for name, told in (("looked", beside), ("never", [*mine, {"op": "release"}])):
        arguments = replayed(tmp_path, name, told)
        capsys.readouterr()
        main(["audit", *arguments, "--external", str(source)])
        verdicts.append(json.loads(capsys.readouterr().out)["promises"]["G5"]["verdict"])
    assert verdicts == ["kept", "broken"]


def test_only_what_others_published_is_written_instead_of_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    assert main(["produce", str(tmp_path / "policy.yaml"), "events.jsonl", "--to", "-"]) == 2
    assert "--to goes with --external" in capsys.readouterr().err


VILLAGE = """table: village
attributes: {age: {type: int, min: 0, max: 99}}
sensitive: {name: disease, values: [A, B, C, D, E], open: [B, C, D, E]}
privacy: {values: redrawn, k: 2, l: 2, headroom: 0, strategy: {name: adaptive, releases: 1}}
"""


def village_events() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """People of four ages; somebody publishes two of these together, and newcomers arrive; then two of them change."""
    before = [
        {"op": "insert", "id": f"old{age}{n}", "qid": {"age": age}, "sensitive": "B"}
        for age in (34, 44, 60, 80)
        for n in "ab"
    ]
    region = {"age": {"min": 34, "max": 44}}
    theirs = {
        "op": "external",
        "publisher": "north",
        "groups": [{"region": region, "sensitive": dict.fromkeys("BCDE", 1)}],
    }
    newcomers = [{"op": "insert", "id": f"new{v}", "qid": {"age": 34}, "sensitive": v} for v in "BCDE"]
    after = [{"op": "update", "id": "newB", "sensitive": "C"}, {"op": "delete", "id": "newC"}]
    again = {"op": "release"}
    return [*before, again, theirs, *newcomers, again], [*after, again]


def test_coarse_cells_survive_a_restart_and_pass_audit_and_report(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(VILLAGE)
    policy, state = str(tmp_path / "policy.yaml"), str(tmp_path / "state")
    parts = village_events()
    for name, events in (("all", [*parts[0], *parts[1]]), ("first", parts[0]), ("second", parts[1])):
        (tmp_path / name).write_text("".join(json.dumps(event) + "\n" for event in events))
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    private = ["--audit", str(tmp_path / "private")]
    assert main(["replay", policy, str(tmp_path / "all"), "--out", str(whole), *private, "--seed", "s"]) == 0
    for name in ("first", "second"):
        assert (
            main(["replay", policy, str(tmp_path / name), "--out", str(resumed), "--state", state, "--seed", "s"]) == 0
        )
    for number in (2, 3):
        rows = (whole / f"release-000{number}" / "rows.csv").read_text()
        assert rows.count(",0-53\n") == 6 - number  # who started coarse, less newC
        assert rows == (resumed / f"release-000{number}" / "rows.csv").read_text()
    true = ["--events", str(tmp_path / "all")]
    assert main(["audit", policy, str(whole), *private, *true]) == 0
    assert main(["audit", policy, str(whole)]) == 0
    assert main(["report", policy, str(whole), *private, *true, "--out", str(tmp_path / "report")]) == 0
    figures = json.loads((tmp_path / "report" / "report.json").read_text())["releases"]
    assert figures[0]["ncp"] < figures[1]["ncp"] < 0.5
