"""`shoal upgrade STATE`: a replay that an older version has begun goes on, and the audit holds both to the promises."""

import csv
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.core.older import LAYOUT, Layout
from shoal.core.policy.meaning import meaning_of
from shoal.core.state import ENGINE
from shoal.streams.errors import GuaranteeError
from shoal.streams.files.formats.release_groups import read_groups
from shoal.streams.files.policy_yaml import load_policy
from tests.support.older import NAMES, Older, read_older
from tests.support.root import ROOT
from tests.support.services.table import insert

SEED = ("--seed", "a seed of the tests")
LATER: list[dict[str, Any]] = [
    {"op": "delete", "id": "p3"}, insert(100), {"op": "update", "id": "p2", "sensitive": ["angina"]}, {"op": "release"},
]  # fmt: skip


class Left:
    """The files of a replay as an older version left them, in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.older: Older = read_older(name)
        self.folder, self.state, self.policy = folder, folder / "state", folder / "policy.json"
        self.policy.write_bytes(self.older.policy)
        self.state.write_bytes(self.older.replay["state"])
        for path, content in self.older.replay["files"].items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)

    def run(self, *words: str, **settings: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "shoal.streams.cli", *words]
        return subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=120)

    def upgrade(self, **settings: str) -> "subprocess.CompletedProcess[str]":
        places = (str(self.state), "--policy", str(self.policy), "--audit", str(self.folder / "audit"))
        return self.run("upgrade", *places, "--yes", **settings)

    def go_on(self, *words: str, more: Sequence[Any] = ()) -> "subprocess.CompletedProcess[str]":
        """The events so far and some later ones, to another release, and then some more."""
        lines = "".join(json.dumps(event) + "\n" for event in (*LATER, *more))
        (self.folder / "events.jsonl").write_bytes(self.older.replay["events"] + lines.encode())
        places = [part for name in ("out", "audit", "state") for part in (f"--{name}", str(self.folder / name))]
        return self.run("replay", str(self.now()), str(self.folder / "events.jsonl"), *places, *SEED, *words)

    def now(self) -> Path:
        """The policy as it has to be now: a redrawn table's says so."""
        policy = json.loads(self.older.policy)
        if "counterfeits" not in policy["privacy"]:
            policy["privacy"]["values"] = "redrawn"
        path = self.folder / "now.json"
        path.write_text(json.dumps(policy))
        return path

    def audit(self) -> "subprocess.CompletedProcess[str]":
        private = ("--events", str(self.folder / "events.jsonl"), "--audit", str(self.folder / "audit"))
        return self.run("audit", str(self.policy), str(self.folder / "out"), *private)


@pytest.mark.parametrize("name", NAMES)
def test_a_replay_goes_on_and_every_promise_holds_over_the_releases_of_both_engines(tmp_path: Path, name: str) -> None:
    left = Left(tmp_path, name)
    if name.startswith("format"):
        refused = left.go_on()
        assert refused.returncode == 2
        assert f"run `shoal upgrade {left.state}`" in refused.stderr
    done = left.upgrade()
    assert done.returncode == 0, done.stderr
    assert ("Add `values: redrawn`" in done.stderr) == (name == "format-5")
    assert b"\xa3p11" not in left.state.read_bytes(), "nobody is called by their id"
    gone_on = left.go_on()
    assert gone_on.returncode == 0, gone_on.stderr
    manifests = [json.loads((tmp_path / "out" / f"release-000{n}" / "manifest.json").read_text()) for n in (3, 4)]
    assert [manifest["engine"] == ENGINE for manifest in manifests] == [False, True]
    audited = left.audit()
    assert audited.returncode == 0, audited.stdout
    assert "4 releases audited against the events" in audited.stdout


def test_what_an_older_engine_published_is_held_to_its_digests_and_to_the_promises(tmp_path: Path) -> None:
    left = Left(tmp_path, "format-5")
    assert left.upgrade().returncode == 0
    assert left.go_on().returncode == 0
    groups = tmp_path / "out" / "release-0002" / "groups.jsonl"
    groups.write_bytes(groups.read_bytes().replace(b'"rows":2', b'"rows":1', 1))
    audited = left.audit()
    assert audited.returncode == 1
    assert "a manifest's content is not what is published" in audited.stdout
    assert "rows.csv or values.csv do not say what the records say" in audited.stdout


def test_releases_of_both_engines_are_read_by_everything_that_reads_releases(tmp_path: Path) -> None:
    left = Left(tmp_path, "format-5")
    assert left.upgrade().returncode == 0
    assert left.go_on().returncode == 0
    out = tmp_path / "out"
    policy, read = shoal.load_policy(left.policy, values="redrawn"), shoal.read_releases(out)
    assert [release.manifest["engine"] for release in read] == ["1.0", "1.0", "1.0", ENGINE]
    for release in read:
        written = list(csv.DictReader((out / f"release-000{release.number}" / "rows.csv").read_text().splitlines()))
        told = release.rows()
        assert Counter(zip(told["group"], told["cell"], told["age"], strict=True)) == Counter(
            (row["group"], row["cell"], row["age"]) for row in written
        )
    exported = left.run("export", str(out), "--to", "csv", "--out", str(tmp_path / "csv"))
    assert exported.returncode == 0, exported.stderr
    lines = list(csv.DictReader((tmp_path / "csv" / "releases.csv").read_text().splitlines()))
    assert [int(line["people"]) for line in lines] == [release.manifest["people"] for release in read]
    assert [release.count(policy).low for release in read] == [release.manifest["people"] for release in read]
    reported = left.run("report", str(left.policy), str(out), "--out", str(tmp_path / "report"), "--json")
    assert reported.returncode == 0, reported.stderr
    assert [figures["rows"] for figures in json.loads(reported.stdout)["releases"]] == [
        len(release.rows()["group"]) for release in read
    ]
    groups = out / "release-0002" / "groups.jsonl"
    groups.write_bytes(groups.read_bytes().replace(b'"rows":2', b'"rows":1', 1))
    with pytest.raises(GuaranteeError, match="release 2 is not what its manifest"):
        shoal.read_releases(out)


def test_releases_of_engine_1_are_followed_by_releases_that_hold_only_what_changed(tmp_path: Path) -> None:
    left, out, deltas = Left(tmp_path, "format-5"), tmp_path / "out", tmp_path / "deltas.json"
    deltas.write_text(json.dumps({**json.loads(left.now().read_text()), "release": {"full_every": 50}}))
    assert left.upgrade().returncode == 0
    gone_on = left.go_on("--change", f"4:{deltas}", more=[insert(101), {"op": "release"}])
    assert gone_on.returncode == 0, gone_on.stderr
    policy, read = shoal.load_policy(deltas), shoal.read_releases(out)
    is_full = [[part["full"] for part in release.manifest.get("shards", ())] for release in read]
    assert is_full == [[], [], [], [True], [False]]
    assert [shoal.read_release(out, release.number) for release in read] == read
    assert shoal.read_release(out, policy=policy).count().low == read[-1].manifest["people"]
    assert [len(release.rows()["group"]) for release in read] == [release.manifest["rows"] for release in read]
    names = {group["group"] for release in read for group in release.groups()}
    assert len(list(read_groups(policy, out))) == len(names), "another publisher reads them, too"
    exported = left.run("export", str(out), "--to", "csv", "--out", str(tmp_path / "csv"))
    assert exported.returncode == 0, exported.stderr
    assert "5 releases as csv" in exported.stdout
    reported = left.run("report", str(deltas), str(out), "--out", str(tmp_path / "report"))
    assert reported.returncode == 0, reported.stderr


def test_an_upgrade_keeps_the_file_as_it_was_and_is_finished_by_the_next_one(tmp_path: Path) -> None:
    left = Left(tmp_path, "format-8")
    before = left.state.read_bytes()
    for point in ("upgrade.state.1", "upgrade.state.2"):
        assert left.upgrade(SHOAL_CRASH_AT=point).returncode == -9
        assert left.state.read_bytes() == before
    assert left.upgrade().returncode == 0
    assert (tmp_path / "state.format-7").read_bytes() == before
    after = left.state.read_bytes()
    assert "needs nothing" in left.upgrade().stdout
    assert left.state.read_bytes() == after
    assert left.go_on().returncode == 0
    assert left.audit().returncode == 0


def test_another_policy_a_lasting_one_and_a_later_engine_are_refused(tmp_path: Path) -> None:
    left = Left(tmp_path, "format-5")
    before = left.state.read_bytes()
    policy = json.loads(left.older.policy)
    for values, sentence in (("redrawn", "by the bytes of its files"), ("lasting", "cannot become lasting")):
        left.policy.write_text(json.dumps({**policy, "privacy": {**policy["privacy"], "values": values}}))
        done = left.upgrade()
        assert done.returncode == 2
        assert sentence in done.stderr
    assert left.state.read_bytes() == before


@pytest.mark.parametrize(
    ("layout", "is_known", "is_current"),
    [
        (Layout(5, "1.0"), True, False),
        (Layout(9, "2.0"), True, False),
        (Layout(9, "2.1"), True, True),
        (Layout(LAYOUT, ENGINE), True, True),
        (Layout(4, "1.0"), False, False),
        (Layout(LAYOUT + 1, ENGINE), False, False),
        (Layout(LAYOUT, "99.0"), False, True),
        (Layout(LAYOUT, "none"), False, True),
    ],
)
def test_which_tables_can_go_on(layout: Layout, is_known: bool, is_current: bool) -> None:
    assert (layout.is_known, layout.is_current) == (is_known, is_current)


@pytest.mark.parametrize("name", ["format-9-ids", "engine-2.1"])
def test_what_a_policy_means_is_what_it_meant_to_older_versions(tmp_path: Path, name: str) -> None:
    """A new key of policies must not make every table another one: at its default it means what there was before."""
    left = Left(tmp_path, name)
    (meta,) = (dict(content) for key, _, content in left.older.redis if key == "meta")
    assert meaning_of(load_policy(left.policy)) == meta[b"policy"].decode()
