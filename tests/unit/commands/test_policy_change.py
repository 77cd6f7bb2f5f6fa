"""A change of policy in `shoal replay`: what is published before, at and after it, and what the auditor says of it."""

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.core import change
from shoal.core.signatures.entries import EntryRecord
from shoal.streams.cli import main
from shoal.streams.errors import InputError
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.files.produce import request_change
from shoal.streams.settings import load_settings
from tests.support.root import ROOT

AT = 4  # the release of the change
ZIPS = [f"z{town}{street}" for town in range(4) for street in range(5)]
VALUES = [f"d{number}" for number in range(12)]
NEW_ZIPS = ["z09", "z19", "z29", "z39", "z51", "z52"]
NEW_VALUES = ["e0", "e1", "e2", "e3"]
OTHERS = [
    {
        "region": {"zip": {"nodes": ["z1*", "z20", "z21"]}, "age": {"min": 10, "max": 40}},
        "sensitive": {f"d{number}": 2 for number in range(1, 9)},
    }
]
POLICY = """
table: town
attributes:
  age: {{type: int, min: 0, max: 99}}
  zip: {{type: category, hierarchy: {name}-zip.csv}}
  sex: {{type: category, values: [f, m]}}
sensitive: {{name: disease, hierarchy: {name}-disease.csv, open: [d0], permanent: [d11]}}
privacy: {{values: {model}, k: {k}, l: 2, headroom: 2}}
"""
SHARDED = "scale: {shards: 5}\nrelease: {full_every: 3}\n"


def write_policy(folder: Path, name: str, model: str, zips: list[str], values: list[str], k: int) -> Path:
    (folder / f"{name}-zip.csv").write_text("".join(f"{label};{label[:2]}*;*\n" for label in zips))
    chains = (f"{label};k{int(label[1:]) % 3};*\n" if label[0] == "d" else f"{label};*\n" for label in values)
    (folder / f"{name}-disease.csv").write_text("".join(chains))
    path = folder / f"{name}.yaml"
    is_sharded = model == "shards"
    text = POLICY.format(name=name, model="lasting" if is_sharded else model, k=k)
    path.write_text(text + SHARDED if is_sharded else text)
    return path


def draw_events(seed: int, arrivals: tuple[int, int, int] = (250, 50, 50)) -> Iterator[dict[str, Any]]:
    """People come, go, move and change; after the change also to what is new.

    `arrivals` are how many come at first, for each release until the change, and for each after it.
    """
    draw, present, count = random.Random(seed), dict[str, None](), 0
    for release in range(1, AT + 4):
        zips, values = (ZIPS, VALUES) if release <= AT else (ZIPS + NEW_ZIPS, VALUES + NEW_VALUES)
        for _ in range(arrivals[0] if release == 1 else arrivals[1 + (release > AT)]):
            qid = {"age": draw.randrange(100), "zip": draw.choice(zips), "sex": draw.choice("fm")}
            guard = draw.choice([{}, {}, {}, {"guard": "k1"}, {"guard": ""}])
            yield {"op": "insert", "id": f"p{count}", "qid": qid, "sensitive": [draw.choice(values)], **guard}
            present[f"p{count}"], count = None, count + 1
        for person in draw.sample(sorted(present), min(30, len(present) // 3)):
            what = draw.randrange(4)
            if what in (0, 3):
                del present[person]
                yield {"op": "delete" if what == 0 else "erase", "id": person}
            elif what == 1:
                yield {"op": "update", "id": person, "qid": {"zip": draw.choice(zips)}}
            else:
                yield {"op": "update", "id": person, "sensitive": [draw.choice(values)]}
        if release in (2, AT + 1):
            yield {"op": "external", "publisher": f"north-{release}", "groups": OTHERS}
        yield {"op": "release"}


class Town:
    """A folder with two policies and events, and the commands to run."""

    def __init__(self, folder: Path, model: str, events: Iterable[dict[str, Any]], k: tuple[int, int] = (3, 4)) -> None:
        self.path = folder
        self.old = write_policy(folder, "old", model, ZIPS, VALUES, k[0])
        self.new = write_policy(folder, "new", model, ZIPS + NEW_ZIPS, VALUES + NEW_VALUES, k[1])
        self.lines = [json.dumps(event) + "\n" for event in events]
        self.events = folder / "events.jsonl"
        self.events.write_text("".join(self.lines))

    def command(self, *options: object, policy: Path | None = None, out: str = "out") -> list[str]:
        given = ["--out", self.path / out, "--audit", self.path / f"{out}-private", "--seed", "s"]
        return [*map(str, ["replay", policy or self.old, self.events, *given, *options])]

    def audit(self, out: str = "out") -> int:
        private = ["--audit", self.path / f"{out}-private", "--events", self.events]
        return main([*map(str, ["audit", self.new, self.path / out, *private, "--previous", self.old])])

    def tree(self, out: str = "out") -> dict[str, bytes]:
        files = sorted((self.path / out).rglob("*"))
        return {str(file.relative_to(self.path / out)): file.read_bytes() for file in files if file.is_file()}

    def manifests(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted((self.path / "out").glob("*/manifest.json"))]


@pytest.fixture(params=["lasting", "redrawn", "shards"])
def town(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Town:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return Town(tmp_path, request.param, draw_events(1))


CHANGE = f"{AT}:{{}}"


def test_every_promise_is_kept_over_a_change_and_the_manifests_name_both_policies(town: Town) -> None:
    assert main(town.command("--change", CHANGE.format(town.new))) == 0
    assert town.audit() == 0
    manifests = town.manifests()
    old, new = manifests[0]["policy"], manifests[-1]["policy"]
    assert old != new
    assert [manifest["policy"] for manifest in manifests] == [old] * (AT - 1) + [new] * (len(manifests) - AT + 1)
    assert [manifest.get("previous_policy") for manifest in manifests] == [
        old if manifest["release"] == AT else None for manifest in manifests
    ]
    shown = b"".join(content for name, content in town.tree().items() if name.endswith("jsonl"))
    assert all(f'"{label}"'.encode() in shown for label in NEW_VALUES), "new values are published in time"
    assert b"z5*" in shown


def test_a_report_follows_a_change(town: Town) -> None:
    assert main(town.command("--change", CHANGE.format(town.new))) == 0
    report = ["report", str(town.new), str(town.path / "out"), "--out", str(town.path / "report")]
    assert main(report) == 0
    assert main([*report[:1], str(town.old), *report[2:]]) == 2, "the policy before does not know the new labels"


def test_the_auditor_needs_the_earlier_policy(town: Town) -> None:
    assert main(town.command("--change", CHANGE.format(town.new))) == 0
    assert main(["audit", str(town.new), str(town.path / "out")]) == 1


def test_a_run_that_stops_before_at_or_after_the_change_is_gone_on_with(town: Town) -> None:
    assert main(town.command("--change", CHANGE.format(town.new), out="whole")) == 0
    ends = [number for number, line in enumerate(town.lines, 1) if '"release"' in line]
    state = ("--state", town.path / "state")
    for release, options in ((AT - 1, ()), (AT, ("--change", CHANGE.format(town.new)))):
        town.events.write_text("".join(town.lines[: ends[release - 1]]))
        assert main(town.command(*state, *options)) == 0
    town.events.write_text("".join(town.lines))
    assert main(town.command(*state, policy=town.old)) == 2, "the old policy is not the state's any more"
    assert main(town.command(*state, policy=town.new)) == 0
    assert town.tree() == town.tree("whole")


@pytest.mark.parametrize("step", [f"replay.{step}" for step in range(1, 6)])
def test_a_run_killed_at_any_step_of_the_change_is_finished_by_the_next(town: Town, step: str) -> None:
    options = ("--change", CHANGE.format(town.new), "--state", town.path / "state")
    assert main(town.command(*options[:2], out="whole")) == 0
    command = [sys.executable, "-m", "shoal.streams.cli", *town.command(*options)]
    done = subprocess.run(command, env={**os.environ, "SHOAL_CRASH_AT": f"{step}:{AT}"}, capture_output=True)
    assert done.returncode not in (0, 1, 2), done.stderr
    assert len(town.manifests()) < 7
    assert main(town.command(*options)) == 0
    assert town.tree() == town.tree("whole")


def test_a_change_that_is_refused_is_told_before_anything_is_written(
    town: Town, capsys: pytest.CaptureFixture[str]
) -> None:
    town.new.write_text(town.old.read_text().replace("k: 3", "k: 2"))
    assert main(town.command("--change", CHANGE.format(town.new))) == 2
    assert "privacy.k: 3 to 2: refused, regions were promised to be shared by 3" in capsys.readouterr().err
    assert not (town.path / "out").exists()


def test_policies_too_large_for_one_record_are_refused_before_anything_is_sent(tmp_path: Path) -> None:
    policy = load_policy(write_policy(tmp_path, "old", "lasting", ZIPS, VALUES, 3))
    settings = load_settings({}, tmp_path / "no.env")
    with pytest.raises(InputError, match=r"take 1,200,000 bytes packed, and one record .* has room for 1,000,000"):
        asyncio.run(request_change(settings, policy, "a" * 600_000, "b" * 600_000))


def exposed(town: Town) -> int:
    """How many values that somebody had before the change are shown among values that came with it."""
    since: dict[tuple[str, str], int] = {}
    release, found = 1, 0
    for event in map(json.loads, town.lines):
        if event["op"] == "release":
            found += sum(since.get(line, release) <= AT for line in _among_new(town, release))
            release += 1
        person = event.get("id")
        if "sensitive" in event or event["op"] in ("delete", "erase"):
            held = set(event.get("sensitive", ()))
            since = {key: when for key, when in since.items() if key[0] != person or key[1] in held}
            since.update({(person, value): since.get((person, value), release) for value in held})
    return found


def _among_new(town: Town, release: int) -> Iterator[tuple[str, str]]:
    groups = (town.path / "out" / f"release-{release:04}" / "groups.jsonl").read_text().splitlines()
    new = {group["group"] for group in map(json.loads, groups) if group["sensitive"].keys() & {*NEW_VALUES}}
    for line in (town.path / "out-private" / f"release-{release:04}.members.jsonl").read_text().splitlines():
        member = json.loads(line)
        if member["group"] in new and member["value"] is not None:
            yield member["id"], member["value"]


@pytest.mark.parametrize("is_careful", [True, False])
def test_a_value_that_began_before_the_change_is_never_shown_among_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_careful: bool
) -> None:
    if not is_careful:

        def translate(self: change.Translation, entry: EntryRecord) -> EntryRecord:
            return entry if entry.value < 0 else entry._replace(value=int(self._values[entry.value]))

        monkeypatch.setattr(change.Translation, "_entry", translate)
    # Fewer than k people until the change: nobody's value is shown before.
    town = Town(tmp_path, "lasting", draw_events(1, arrivals=(12, 12, 80)), k=(60, 60))
    assert main(town.command("--change", CHANGE.format(town.new))) == 0
    assert (exposed(town) == 0) is is_careful
    assert (town.audit() == 0) is is_careful, "the auditor finds it, too"


class Flat(Town):
    """A sharded table whose cuts stand between siblings, so that new labels lie beside a shard's own."""

    def __init__(self, folder: Path, full_every: int) -> None:
        super().__init__(folder, "shards", draw_events(2, arrivals=(140, 20, 120)), k=(6, 7))
        labels = "attributes:\n  zip: {{type: category, values: [{zips}]}}\n"
        for path, zips in ((self.old, ZIPS), (self.new, ZIPS + NEW_ZIPS)):
            head, _, rest = path.read_text().partition("attributes:")
            rest = rest[rest.index("sensitive:") :].replace("full_every: 3", f"full_every: {full_every}")
            rest = rest.replace("shards: 5", "shards: 2")
            path.write_text(head + labels.format(zips=", ".join(zips)) + rest)
        events = map(json.loads, self.lines)
        kept = [{**event, "qid": {"zip": event["qid"]["zip"]}} if "qid" in event else event for event in events]
        self.events.write_text("".join(json.dumps(event) + "\n" for event in kept if event["op"] != "external"))

    def regions(self) -> dict[str, set[str]]:
        """By cell, every region that was ever published under its id."""
        found: dict[str, set[str]] = {}
        for name, content in self.tree().items():
            for line in content.splitlines() if name.endswith("cells.jsonl") else ():
                cell = json.loads(line)
                found.setdefault(cell["cell"], set()).add(json.dumps(cell["region"]))
        return found


@pytest.mark.parametrize("full_every", [1, 4])
@pytest.mark.parametrize("jobs", [1, 2])
def test_new_labels_beside_a_shard_s_own_come_to_it_and_every_cell_keeps_its_region(
    tmp_path: Path, jobs: int, full_every: int
) -> None:
    town = Flat(tmp_path, full_every)
    assert main(town.command("--change", CHANGE.format(town.new), "--jobs", jobs)) == 0
    assert town.audit() == 0
    told = [[json.dumps(shard["region"]) for shard in one["shards"]] for one in town.manifests()]
    assert told[AT - 1] == told[0], "the release of the change is written with the labels before it"
    assert told[AT][:-1] == told[0][:-1]
    assert all(label in told[AT][-1] and label not in told[0][-1] for label in NEW_ZIPS)
    assert all(len(regions) == 1 for regions in town.regions().values())
    assert any(cell.startswith("s1-") and NEW_ZIPS[0] in str(regions) for cell, regions in town.regions().items())


def test_the_auditor_finds_a_shard_whose_cells_take_in_new_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change.Translation, "_tears", lambda _, __: [])
    town = Flat(tmp_path, 1)
    assert main(town.command("--change", CHANGE.format(town.new))) == 0
    old, new = f'"{ZIPS[-1]}"', f'"{NEW_ZIPS[0]}"'
    assert any(old in str(regions) and new in str(regions) for regions in town.regions().values())
    assert town.audit() == 1
