"""`shoal audit` as a command: sentences, exit codes, and nothing about anyone."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from shoal.streams.cli import main
from shoal.streams.demo.clinic import Clinic, write_clinic
from shoal.streams.files.rejects import rejects_beside
from tests.support.redrawn_clinic import redraw


@dataclass
class Desk:
    """A replayed clinic, and the command that audits it."""

    path: Path
    capture: pytest.CaptureFixture[str]

    @property
    def out(self) -> Path:
        return self.path / "out"

    def audit(self, *args: object, out: Path | None = None) -> int:
        private = ("--audit", self.path / "private", "--events", self.path / "clinic" / "events.jsonl")
        return self.audit_publicly(*private, *args, out=out)

    def audit_publicly(self, *args: object, out: Path | None = None) -> int:
        return main(["audit", str(self.path / "clinic" / "policy.yaml"), str(out or self.out), *map(str, args)])

    def said(self) -> str:
        captured = self.capture.readouterr()
        return captured.out + captured.err


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audited")
    write_clinic(path / "clinic", Clinic(people=150, nights=4, seed=3))
    clinic, private = path / "clinic", ("--audit", str(path / "private"))
    redraw(clinic / "policy.yaml")
    command = ["replay", str(clinic / "policy.yaml"), str(clinic / "events.jsonl"), "--out", str(path / "out")]
    assert main([*command, *private, "--seed", "s"]) == 0
    return path


@pytest.fixture
def desk(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    capsys.readouterr()
    return Desk(tmp_path, capsys)


def folder(desk: Desk, number: int) -> Path:
    return desk.out / f"release-{number:04}"


def edit_manifest(desk: Desk, number: int, **values: Any) -> None:
    path = folder(desk, number) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_an_audit_of_what_replay_made_finds_nothing_and_says_what_an_adversary_learns(desk: Desk) -> None:
    assert desk.audit("--seed", "s") == 0
    said = desk.said()
    assert all(f"\n{promise}" in said for promise in ("G1", "G2", "G4", "G6", "contract"))
    assert "broken" not in said
    assert "note" not in said
    assert "What an adversary learns" in said
    assert "What would have worked on naive releases" in said


def test_no_id_and_no_value_is_printed(desk: Desk) -> None:
    ids, values = set(), set()
    for line in (desk.path / "clinic" / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        ids.add(event.get("id", "patient-0"))
        named = event.get("sensitive", [])
        values |= {str(value) for value in (named if isinstance(named, list) else [named])}
    ids.discard("nobody")  # a mistake in the made-up clinic, and a word of the report
    assert len(ids) > 100
    assert len(values) > 10
    for args in ((), ("--json",)):
        desk.audit(*args)
        words = set(desk.said().replace('"', " ").replace(",", " ").split())
        assert not words & ids
        assert not words & values


def test_json_says_the_same_for_machines(desk: Desk) -> None:
    assert desk.audit("--json") == 0
    report = json.loads(desk.said())
    assert report["kept"] is True
    assert {promise["verdict"] for promise in report["promises"].values()} == {"kept"}
    assert len(report["private"]["worst"]) == 10
    manifest = json.loads((folder(desk, 4) / "manifest.json").read_text())
    assert report["private"]["max_breach"]["about"] == pytest.approx(manifest["max_breach"])
    assert report["private"]["attacks"]["intersection"]["here"]["unsafe"] == 0
    assert report["private"]["attacks"]["intersection"]["naive"]["unsafe"] > 0
    assert report["private"]["attacks"]["local"]["over"] > 0
    edit_manifest(desk, 4, rows=1)
    assert desk.audit("--json") == 1
    found = json.loads(desk.said())["promises"]["contract"]["broken"]
    assert found[0] == {
        "sentence": "rows in a manifest is not what its records add up to",
        "times": 1,
        "releases": [4],
        "places": [],
    }


def test_pseudonyms_are_the_same_under_one_key_and_different_under_another(desk: Desk) -> None:
    def pseudonyms(*seed: object) -> set[str]:
        desk.audit("--json", *seed)
        return {one["pseudonym"] for one in json.loads(desk.said())["private"]["worst"]}

    one, two = desk.path / "one", desk.path / "two"
    one.write_text("a")
    two.write_text("b")
    assert pseudonyms("--seed-file", one) == pseudonyms("--seed-file", one)
    assert not pseudonyms("--seed-file", one) & pseudonyms("--seed-file", two)
    assert not pseudonyms() & pseudonyms()


def test_public_mode_says_what_it_cannot_know(desk: Desk) -> None:
    assert desk.audit_publicly("--json") == 0
    report = json.loads(desk.said())
    assert report["promises"]["G4"]["verdict"] == "not decided"
    assert report["private"] is None
    manifest = json.loads((folder(desk, 4) / "manifest.json").read_text())
    assert report["public"]["most"]["about"] >= manifest["max_breach"] - 1e-9


def test_events_that_replay_and_the_contract_judge_differently_are_noted(desk: Desk) -> None:
    path = rejects_beside(desk.out)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    assert desk.audit() == 0
    assert "1 event was taken that does not count by the contract" in desk.said()


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--audit", "private"], "go together"),
        (["--events", "clinic/events.jsonl"], "go together"),
        (["--audit", "private", "--events", "missing"], "cannot be read"),
        (["--audit", "missing", "--events", "clinic/events.jsonl"], "cannot be read"),
        (["--external", "clinic/events.jsonl"], "--external goes with --audit and --events"),
        (["--seed", ""], "empty seed"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(desk: Desk, args: list[str], expected: str) -> None:
    paths = [str(desk.path / arg) if not arg.startswith("-") and arg else arg for arg in args]
    assert desk.audit_publicly(*paths) == 2
    said = desk.said().splitlines()
    assert len(said) == 1
    assert expected in said[0]


def test_a_folder_without_releases_cannot_be_audited(desk: Desk) -> None:
    for out in (desk.path / "clinic", desk.path / "nowhere"):
        assert desk.audit_publicly(out=out) == 2


def test_events_that_end_before_the_releases_do_are_not_enough(desk: Desk) -> None:
    path = desk.path / "clinic" / "events.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[: len(lines) // 2]))
    assert desk.audit() == 2
    assert "give all events that led to it" in desk.said()


def test_a_wrong_external_file_is_named_by_its_line_only(desk: Desk) -> None:
    path = desk.path / "others.jsonl"
    path.write_text('\n{"op": "external", "publisher": "canary"}\n')
    assert desk.audit("--external", path) == 2
    said = desk.said()
    assert "others.jsonl, line 2, is not an external event" in said
    assert "canary" not in said


def test_a_damaged_membership_is_named_by_its_line_only(desk: Desk) -> None:
    path = desk.path / "private" / "release-0002.members.jsonl"
    path.write_text('{"id": "canary"}\n' + path.read_text())
    assert desk.audit() == 2
    said = desk.said()
    assert "line 1" in said
    assert "canary" not in said


def test_several_files_of_events_are_read_in_their_order(desk: Desk) -> None:
    lines = (desk.path / "clinic" / "events.jsonl").read_text().splitlines(keepends=True)
    parts = []
    for number, part in enumerate((lines[:100], lines[100:])):
        parts += ["--events", desk.path / f"{number}.jsonl"]
        (desk.path / f"{number}.jsonl").write_text("".join(part))
    assert desk.audit_publicly("--audit", desk.path / "private", *parts) == 0
