"""`import shoal`: what a notebook needs, documented, quick to import, and the same bytes as the commands."""

import csv
import inspect
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.streams.cli import main

ROOT = Path(__file__).parents[3]
WARD = ROOT / "examples" / "ward"
EVENTS = WARD / "events.jsonl"


@pytest.fixture
def policy() -> shoal.Policy:
    return shoal.load_policy(WARD / "policy.yaml")


def events() -> list[dict[str, Any]]:
    return [json.loads(line) for line in EVENTS.read_text().splitlines()]


def test_importing_shoal_imports_nothing_heavy() -> None:
    heavy = ("shoal.", "numpy", "pydantic", "yaml", "aiokafka")
    script = f"import sys, shoal; print([name for name in sys.modules if name.startswith({heavy})])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    assert dir(shoal) == sorted(shoal.__all__)
    for name in shoal.__all__:
        found = getattr(shoal, name)
        assert name == "__version__" or inspect.getdoc(found), name
    for module in ("core", "streams"):
        assert "Private" in (__import__(f"shoal.{module}", fromlist=["x"]).__doc__ or "")


def test_a_name_that_is_not_public_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'plan'"):
        _ = shoal.plan  # type: ignore[attr-defined]


def test_the_version_is_said_in_one_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"shoal {shoal.__version__}\n"
    assert "version" not in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_a_replay_writes_what_the_command_writes(tmp_path: Path, policy: shoal.Policy) -> None:
    command = ["replay", str(WARD / "policy.yaml"), str(EVENTS), "--seed", "s"]
    assert main([*command, "--out", str(tmp_path / "theirs"), "--audit", str(tmp_path / "theirs-private")]) == 0
    run = shoal.replay(policy, EVENTS, tmp_path / "ours", private=tmp_path / "ours-private", key="s")
    for name in ("", "-private"):
        theirs, ours = tmp_path / f"theirs{name}", tmp_path / f"ours{name}"
        paths = [path.relative_to(theirs) for path in theirs.rglob("*") if path.is_file()]
        assert paths
        for path in paths:
            assert (theirs / path).read_bytes() == (ours / path).read_bytes()
    assert list(run.releases) == shoal.read_releases(tmp_path / "theirs")


def test_events_in_memory_become_releases_in_memory(tmp_path: Path, policy: shoal.Policy) -> None:
    run = shoal.replay(policy, EVENTS, tmp_path / "out", key=b"s")
    in_memory = shoal.replay(policy, iter(events()), key="s")
    assert in_memory == run
    assert [release.number for release in run.releases] == [1, 2, 3]
    assert (run.accepted, run.waiting) == (len(events()) - 4, 0)
    assert run.rejects == ({"line": 77, "op": "insert", "reason": "out-of-domain", "field": "qid.age"},)


def test_a_release_has_the_columns_of_its_spreadsheets(tmp_path: Path, policy: shoal.Policy) -> None:
    last = shoal.replay(policy, EVENTS, tmp_path / "out").releases[-1]
    assert last == shoal.read_release(tmp_path / "out", last.number) == shoal.read_release(tmp_path / "out")
    for columns, name in ((last.rows(), "rows.csv"), (last.values(), "values.csv")):
        with (tmp_path / "out" / "release-0003" / name).open(newline="") as text:
            header, *rows = csv.reader(text)
        assert list(columns) == header
        assert [[str(field) for field in row] for row in zip(*columns.values(), strict=True)] == rows
    assert last.manifest["rows"] == len(last.rows()["group"])
    assert last.manifest["groups"] == len(last.groups())


def test_a_release_prints_in_one_line_without_its_records(policy: shoal.Policy) -> None:
    made = shoal.replay(policy, events()).releases[-1]
    told = made.manifest
    assert repr(made) == f"<release {made.number} of ward: {told['people']} people, {told['groups']} groups>"


def test_a_run_can_resume_and_returns_only_what_it_made(tmp_path: Path, policy: shoal.Policy) -> None:
    wrong = {"op": "insert", "id": "canary-7f3a"}
    at = next(index for index, event in enumerate(events()) if event["op"] == "release") + 1
    first = shoal.replay(policy, [wrong, *events()[:at]], tmp_path / "out", state=tmp_path / "state")
    rest = shoal.replay(policy, [*events()[at:], wrong], tmp_path / "out", state=tmp_path / "state")
    assert [release.number for run in (first, rest) for release in run.releases] == [1, 2, 3]
    reasons = [[reject["reason"] for reject in run.rejects] for run in (first, rest)]
    assert reasons == [["missing-field"], ["out-of-domain", "missing-field"]]
    assert "canary" not in str(first.rejects + rest.rejects)


def test_an_audit_says_whether_every_promise_is_kept(tmp_path: Path, policy: shoal.Policy) -> None:
    out, private = tmp_path / "out", tmp_path / "private"
    shoal.replay(policy, EVENTS, out, private=private)
    report = shoal.audit(policy, out, private=private, events=[EVENTS])
    assert report.is_kept
    assert report.private is not None
    assert shoal.audit(policy, out).private is None
    groups = out / "release-0001" / "groups.jsonl"
    groups.write_bytes(groups.read_bytes().replace(b'"cells":{"c', b'"cells":{"c1', 1))
    assert not shoal.audit(policy, out, private=private, events=[EVENTS]).is_kept
    with pytest.raises(shoal.GuaranteeError, match="chain of releases is broken"):
        shoal.read_releases(out)


def test_wrong_use_is_one_sentence(tmp_path: Path, policy: shoal.Policy) -> None:
    with pytest.raises(shoal.InputError, match="has no private files"):
        shoal.replay(policy, EVENTS, private=tmp_path / "private")
    with pytest.raises(shoal.InputError, match="go together"):
        shoal.audit(policy, tmp_path, private=tmp_path)
    with pytest.raises(shoal.InputError, match="no secret"):
        shoal.replay(policy, EVENTS, key="")
    with pytest.raises(shoal.InputError, match="is not a folder of releases"):
        shoal.read_releases(tmp_path / "missing")
    with pytest.raises(shoal.InputError, match=r"has no manifest\.json"):
        shoal.read_release(tmp_path, 1)
    with pytest.raises(shoal.InputError, match="has no releases in it"):
        shoal.read_release(tmp_path)
    with pytest.raises(shoal.InputError, match="is neither a folder of releases nor a topic"):
        shoal.read_release(tmp_path / "missing")
    for wrong in (None, policy):
        with pytest.raises(shoal.InputError, match="a topic is read with the policy of its table"):
            shoal.read_release("shoal.other.releases", policy=wrong)


def test_a_release_that_was_read_with_its_policy_counts_by_itself(tmp_path: Path, policy: shoal.Policy) -> None:
    made = shoal.replay(policy, EVENTS, tmp_path / "out").releases[-1]
    asked: dict[str, Any] = {"age": (30, 50), "disease": ["asthma"]}
    answer = made.count(policy, **asked)
    for known in (policy, WARD / "policy.yaml"):
        assert shoal.read_release(tmp_path / "out", policy=known).count(**asked) == answer
        assert shoal.read_releases(tmp_path / "out", policy=known)[-1].count(**asked) == answer
    assert made.count(**asked) == answer
    with pytest.raises(shoal.InputError, match="a count needs the policy"):
        shoal.read_release(tmp_path / "out").count(**asked)
    with pytest.raises(shoal.InputError, match="the method is model or even"):
        made.count(policy, method="guess", **asked)  # type: ignore[arg-type]


def test_a_cross_table_and_a_trend_have_the_counts_of_each_question(tmp_path: Path, policy: shoal.Policy) -> None:
    pytest.importorskip("pandas")
    shoal.replay(policy, EVENTS, tmp_path / "out")
    releases = shoal.read_releases(tmp_path / "out", policy=policy)
    table = releases[-1].table(rows={"age": [40]}, values="asthma")
    assert table.columns.tolist()[:4] == ["age", "disease", "people", "estimate"]
    young = releases[-1].count(age=(None, 39), disease="asthma")
    assert table.loc[0, ["estimate", "likely_low", "likely_high"]].tolist() == [young.estimate, *young.likely]
    trend = releases.trend(age=(None, 39), disease="asthma")
    assert trend["release"].tolist() == [release.number for release in releases]
    assert trend["estimate"].iloc[-1] == young.estimate
    with pytest.raises(shoal.InputError, match="has no attribute height"):
        releases[-1].table(rows="height")
