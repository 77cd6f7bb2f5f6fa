"""`shoal export` and data frames: the tidy tables say what the release says, whole or not at all."""

import builtins
import csv
import importlib
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.core.measure.query import Query, Range, estimate
from shoal.core.measure.release_reader import read_columns
from shoal.core.published.manifest import Manifest, PublishedRelease
from shoal.streams.cli import main
from shoal.streams.cli.export import command as export_command
from shoal.streams.files.export import FORMATS
from shoal.streams.files.rejects import rejects_beside
from shoal.streams.files.tidy import Layout, tidy
from tests.support.root import ROOT

WARD = ROOT / "examples" / "ward"
TABLES = ("cells", "releases", "rows", "values")
FILES = [to for to in FORMATS if to != "postgres"]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    shoal.replay(shoal.load_policy(WARD / "policy.yaml"), WARD / "events.jsonl", tmp_path / "ward", key="s")
    rejects_beside(tmp_path / "ward").unlink()
    return tmp_path / "ward"


def read_csv(folder: Path) -> dict[str, list[dict[str, str]]]:
    return {name: list(csv.DictReader((folder / f"{name}.csv").open(newline=""))) for name in TABLES}


def run(out: Path, to: str, target: Path, *more: str) -> int:
    return main(["export", str(out), "--to", to, "--out", str(target), *more])


def test_csv_says_what_the_releases_say(out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(out, "csv", tmp_path / "tables") == 0
    assert capsys.readouterr().out == f"{tmp_path / 'tables'}: 3 releases as csv\n"
    found = read_csv(tmp_path / "tables")
    for release in shoal.read_releases(out):
        mine = {name: [line for line in found[name] if line["release"] == str(release.number)] for name in TABLES}
        assert len(mine["cells"]) == release.manifest["cells"]
        assert sum(int(line["people"]) for line in mine["cells"]) == release.manifest["people"]
        assert sum(int(line["rows"]) for line in mine["rows"]) == release.manifest["rows"]
        shown = release.values()
        assert [line["value"] for line in mine["values"]] == shown["value"]
        assert [int(line["count"]) for line in mine["values"]] == shown["count"]
        (line,) = mine["releases"]
        assert line["published_at"] == (release.manifest["published_at"] or "")
        assert line["withheld"] == str(release.manifest["withheld"])
        for cell, line in zip(release.cells(), mine["cells"], strict=True):
            assert (int(line["age_min"]), int(line["age_max"])) == tuple(cell["region"]["age"].values())
            assert [float(line["weight_min"]), float(line["weight_max"])] == list(cell["region"]["weight"].values())
            assert line["sex"] == "|".join(cell["region"]["sex"]["nodes"])


def test_parquet_and_duckdb_have_the_same_lines_as_csv(out: Path, tmp_path: Path) -> None:
    parquet, duckdb = importlib.import_module("pyarrow.parquet"), importlib.import_module("duckdb")
    for to in FILES:
        assert run(out, to, tmp_path / to) == 0
    expected = read_csv(tmp_path / "csv")
    with duckdb.connect(str(tmp_path / "duckdb"), read_only=True) as database:
        for name in TABLES:
            lines = parquet.read_table(tmp_path / "parquet" / f"{name}.parquet").to_pylist()
            assert [{key: "" if item is None else str(item) for key, item in line.items()} for line in lines] == (
                expected[name]
            )
            assert database.execute(f'SELECT * FROM "{name}"').fetchall() == [tuple(line.values()) for line in lines]
    assert not list(tmp_path.glob(".*"))


def test_the_views_of_duckdb_expect_what_a_query_of_whole_cells_answers(out: Path, tmp_path: Path) -> None:
    assert run(out, "duckdb", tmp_path / "ward.duckdb") == 0
    policy = shoal.load_policy(WARD / "policy.yaml")
    with importlib.import_module("duckdb").connect(str(tmp_path / "ward.duckdb"), read_only=True) as database:
        everything = database.execute(
            "SELECT release, value, sum(expected) FROM expected_in_all GROUP BY ALL"
        ).fetchall()
        newest = database.execute("SELECT DISTINCT release FROM expected").fetchall()
        by_age = database.execute("SELECT count(*) FROM expected WHERE age_min >= 0 AND sex IS NOT NULL").fetchone()
        lines = database.execute("SELECT count(*) FROM expected_in_all WHERE release = 3").fetchone()
    assert newest == [(3,)]
    assert by_age == lines
    by_release: dict[int, dict[str, float]] = defaultdict(dict)
    for number, value, expected in everything:
        by_release[number][value] = expected
    for release in shoal.read_releases(out):
        columns = read_columns(policy, release.records)
        shown = {value for value in by_release[release.number] if value in policy.sensitive.hierarchy.leaf_code}
        assert shown
        assert sum(by_release[release.number].values()) == pytest.approx(
            estimate(columns, [Query((), Range(0, len(policy.sensitive.hierarchy.leaves)))])[0]
        )


def test_the_views_share_the_values_of_a_group_among_its_rows(out: Path, tmp_path: Path) -> None:
    assert run(out, "duckdb", tmp_path / "ward.duckdb", "--release", "1") == 0
    expected: dict[tuple[str, str], float] = defaultdict(float)
    for group in shoal.read_release(out, 1).groups():
        rows, shown = sum(group["cells"].values()), sum(group["sensitive"].values())
        for cell, mine in group["cells"].items():
            for value, count in group["sensitive"].items():
                expected[cell, value] += mine * count / shown * (shown - group["vacant"]) / rows
    with importlib.import_module("duckdb").connect(str(tmp_path / "ward.duckdb"), read_only=True) as database:
        found = database.execute("SELECT cell, value, expected FROM expected").fetchall()
    assert {(cell, value): amount for cell, value, amount in found} == pytest.approx(dict(expected))


@pytest.mark.parametrize("policy", ["policy.yaml", "redrawn.yaml"])
def test_the_views_enclose_what_a_count_of_whole_cells_encloses(tmp_path: Path, policy: str) -> None:
    """The policy says more than the tables do, so the interval of a count lies within that of the views."""
    rules = shoal.load_policy(WARD / policy)
    shoal.replay(rules, WARD / "events.jsonl", tmp_path / "out", key="s")
    assert run(tmp_path / "out", "duckdb", tmp_path / "ward.duckdb") == 0
    with importlib.import_module("duckdb").connect(str(tmp_path / "ward.duckdb"), read_only=True) as database:
        found = database.execute("SELECT release, value, expected, low, high FROM by_value").fetchall()
        outside = database.execute(
            "SELECT count(*) FROM expected_in_all WHERE NOT (0 <= low AND low <= expected AND expected <= high)"
        ).fetchone()
        finer = database.execute(
            "SELECT count(*) FROM (SELECT release, value, sum(low) l, sum(high) h FROM expected_in_all GROUP BY ALL) e "
            "JOIN by_value b USING (release, value) WHERE e.l > b.low OR e.h < b.high"
        ).fetchone()
    assert outside == finer == (0,)
    releases = shoal.read_releases(tmp_path / "out")
    leaves = [line for line in found if line[1] in rules.sensitive.hierarchy.leaf_code]
    assert len(leaves) > 20
    for number, value, expected, low, high in leaves:
        shown_above = any(
            shown not in rules.sensitive.hierarchy.leaf_code for shown in releases[number - 1].values()["value"]
        )
        truth = releases[number - 1].count(rules, **{rules.sensitive.name: value})
        if not shown_above:  # a label above the leaf stands for itself in the tables
            assert (low, high) == (truth.low, truth.high)
        assert low <= truth.low
        assert low <= expected <= high


@pytest.mark.parametrize("policy", ["policy.yaml", "redrawn.yaml"])
def test_with_the_policy_the_views_have_the_estimates_of_counts(tmp_path: Path, policy: str) -> None:
    rules = shoal.load_policy(WARD / policy)
    shoal.replay(rules, WARD / "events.jsonl", tmp_path / "out", key="s")
    for name, args in (("plain", ()), ("model", ("--policy", str(WARD / policy)))):
        assert run(tmp_path / "out", "duckdb", tmp_path / f"{name}.duckdb", *args) == 0
    found: dict[str, list[tuple[Any, ...]]] = {}
    columns = "release, value, expected, estimate, likely_low, likely_high, low, high"
    for name in ("plain", "model"):
        with importlib.import_module("duckdb").connect(str(tmp_path / f"{name}.duckdb"), read_only=True) as database:
            found[name] = database.execute(f"SELECT {columns} FROM by_value ORDER BY ALL").fetchall()
            cells = database.execute(f"SELECT {columns} FROM expected_in_all WHERE value != '*'").fetchall()
            totals = database.execute("SELECT release, sum(estimate) FROM expected_in_all GROUP BY ALL").fetchall()
            assert database.execute("SELECT count(estimate) FROM expected").fetchone() != (0,)
        for *_, expected, guess, likely_low, likely_high, low, high in cells:
            if name == "plain":
                assert (guess, likely_low, likely_high) == (expected, low, high)
            assert low <= likely_low <= guess <= likely_high <= high
    releases = shoal.read_releases(tmp_path / "out", policy=rules)
    leaves = [line for line in found["model"] if line[1] in rules.sensitive.hierarchy.leaf_code]
    for number, value, _, guess, *ranges in leaves:
        count = releases[number - 1].count(**{rules.sensitive.name: value})
        assert (guess, *ranges) == pytest.approx((count.estimate, *count.likely, count.low, count.high))
    by_release = {number: sum(line[3] for line in leaves if line[0] == number) for number, _ in totals}
    assert dict(totals) == pytest.approx(by_release, abs=0.5, rel=0.02)


def test_an_export_with_another_policy_is_refused(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(out, "csv", tmp_path / "csv", "--policy", str(WARD / "redrawn.yaml")) == 2
    assert "was made with another policy" in capsys.readouterr().err
    assert not (tmp_path / "csv").exists()


def test_changes_lead_from_each_release_to_the_next(out: Path, tmp_path: Path) -> None:
    assert run(out, "duckdb", tmp_path / "ward.duckdb") == 0
    with importlib.import_module("duckdb").connect(str(tmp_path / "ward.duckdb"), read_only=True) as database:
        found = database.execute("SELECT release, value, change, low, high FROM changes ORDER BY ALL").fetchall()
        totals = database.execute("SELECT release, value, expected, low, high FROM by_value").fetchall()
    by_release: dict[int, dict[str, tuple[float, int, int]]] = defaultdict(dict)
    for number, value, *figures in totals:
        by_release[number][value] = tuple(figures)
    expected_changes = []
    for number in (2, 3):
        for value in sorted({*by_release[number], *by_release[number - 1]}):
            before, after = (by_release[one].get(value, (0, 0, 0)) for one in (number - 1, number))
            ends = (after[1] - before[2], after[2] - before[1])
            expected_changes.append((number, value, pytest.approx(after[0] - before[0]), *ends))
    assert found == expected_changes
    assert any(low < high for *_, low, high in found), "nothing is left open here, so nothing is tested"


def test_the_command_offers_every_format() -> None:
    (to,) = [option for option in export_command.params if option.name == "to"]
    assert list(to.type.choices) == list(FORMATS)  # type: ignore[attr-defined]


def test_one_release_can_be_had_alone(out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (out / "release-0001" / "manifest.json").unlink()
    assert run(out, "csv", tmp_path / "last", "--release", "2") == 0
    assert capsys.readouterr().out.endswith("1 release as csv\n")
    assert {line["release"] for line in read_csv(tmp_path / "last")["cells"]} == {"2"}


@pytest.mark.parametrize("to", FILES)
def test_a_release_that_was_changed_is_refused_and_nothing_is_left(
    out: Path, tmp_path: Path, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = out / "release-0002" / "groups.jsonl"
    groups.write_bytes(groups.read_bytes().replace(b'"vacant":0', b'"vacant":1', 1))
    for more in ((), ("--release", "2")):
        assert run(out, to, tmp_path / "tables", *more) == 1
        assert "release 2 has other records than its manifest says" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["ward"]


def test_wrong_use_is_one_sentence(out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    for folder, target, more, said in (
        (tmp_path / "missing", tmp_path / "x", (), "is not a folder of releases"),
        (tmp_path / "empty", tmp_path / "x", (), "has no releases"),
        (out, out / "x", (), "must not be inside"),
        (out, tmp_path / "empty", (), "exists already"),
        (out, tmp_path / "no" / "x", (), "make it first"),
        (out, tmp_path / "x", ("--release", "9"), "has no manifest.json"),
        (out, tmp_path / "x", ("--schema", "s"), "--schema is for PostgreSQL only"),
        (out, tmp_path / "x", ("--kafka", "localhost:1"), "give either OUT, a folder"),
    ):
        assert run(folder, "csv", target, *more) == 2, said
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(("to", "package"), [("parquet", "pyarrow"), ("duckdb", "duckdb"), ("postgres", "psycopg")])
def test_a_missing_package_is_one_sentence(
    out: Path,
    tmp_path: Path,
    to: str,
    package: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hide(monkeypatch, package)
    assert run(out, to, tmp_path / "x") == 2
    extra = "postgres" if to == "postgres" else "analysis"
    what = {"psycopg": "psycopg[binary]"}.get(package, package)
    said = f"shoal: this needs {package}; get it with `pip install '{what}'` (extra `{extra}`).\n"
    assert capsys.readouterr().err == said
    assert [path.name for path in tmp_path.iterdir()] == ["ward"]


def hide(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """As if the package were not installed."""
    true_import = importlib.import_module

    def missing(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(name=name)
        return true_import(name, *rest)

    monkeypatch.setattr("shoal.streams.files.extra.import_module", missing)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_are_the_same_tables(out: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    last = shoal.read_releases(out)[-1]
    frames = last.frames() if kind == "pandas" else last.frames(kind)
    files = PublishedRelease(last.number, last.cell_records, last.group_records, Manifest(last.manifest_json))
    expected = tidy(files, Layout([files]))
    for name, frame in frames._asdict().items():
        assert type(frame).__module__.startswith(kind)
        assert {column: list(frame[column]) for column in frame.columns} == expected[name]
        assert expected[name]["release"], name
    hide(monkeypatch, kind)
    with pytest.raises(shoal.InputError, match=f"this needs {kind}; get it"):
        last.frames(kind)
    with pytest.raises(shoal.InputError, match="pandas or polars"):
        last.frames("canary")


def test_a_release_without_cells_has_empty_tables(tmp_path: Path) -> None:
    policy = shoal.load_policy(WARD / "policy.yaml")
    (nothing,) = shoal.replay(policy, [{"op": "release"}], tmp_path / "none").releases
    for kind in ("pandas", "polars"):
        assert [len(frame) for frame in nothing.frames(kind)] == [0, 0, 0]
    for to in FILES:
        assert run(tmp_path / "none", to, tmp_path / to) == 0
    assert tuple(nothing.count(policy, age=(1, 2), disease="flu")) == (0, 0, 0, (0, 0))
    assert tuple(nothing.count(policy, age=(1, 2))) == (0, 0, 0, (0, 0))


def test_a_name_that_a_column_has_already_gets_a_line_behind_it() -> None:
    region = {"Cell": {"nodes": ["x,\"y'"]}, "age": {"min": 1, "max": 2}, "age_min": {"min": 1.0, "below": 2.5}}
    record = json.dumps({"cell": "c1", "people": 3, "region": region}).encode()
    layout = Layout([PublishedRelease(1, (record,), (), Manifest(b"{}"))])
    names = ["age", "age_min", "age_max", "age_min_", "age_min_min", "age_min_max"]
    assert list(layout.cells) == ["release", "cell", "people", "Cell_", *names]
    cells = tidy(PublishedRelease(1, (record,), (), Manifest(b"{}")), layout)["cells"]
    assert [column[0] for column in cells.values()] == [1, "c1", 3, "x,\"y'", "1-2", 1, 2, "[1,2.5)", 1.0, 2.5]


def test_a_count_needs_the_policy_of_the_release(out: Path, tmp_path: Path) -> None:
    policy, last = shoal.load_policy(WARD / "policy.yaml"), shoal.read_releases(out)[-1]
    everyone = last.count(policy)
    assert everyone.low == everyone.high == everyone.estimate == last.manifest["people"]
    flu = last.count(policy, age=(20, 60), disease=["flu", "cold"])
    assert 0 <= flu.low <= flu.estimate <= flu.high
    with pytest.raises(shoal.InputError, match="the table ward has no attribute height"):
        last.count(policy, height=3)
    for name in ("policy.yaml", "disease.csv"):
        (tmp_path / name).write_bytes((WARD / name).read_bytes())
    (tmp_path / "policy.yaml").write_text((WARD / "policy.yaml").read_text().replace("k: 3", "k: 4"))
    with pytest.raises(shoal.InputError, match="made with another policy"):
        last.count(shoal.load_policy(tmp_path / "policy.yaml"))


def test_shoal_does_not_import_the_extras_before_they_are_asked_for(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true_import = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        assert name.partition(".")[0] not in {"pandas", "polars", "pyarrow", "duckdb"}
        return true_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    (last,) = shoal.read_releases(out)[-1:]
    assert last.rows()
    assert run(out, "csv", out.parent / "tables") == 0
