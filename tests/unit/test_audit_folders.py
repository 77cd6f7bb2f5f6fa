"""Folders that somebody has tampered with, and the command itself: sentences, exit codes, and nothing about anyone."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from streams.cli import main
from streams.clinic import Clinic, write_clinic


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


def edit_groups(desk: Desk, number: int, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Edits records, and seals them anew: content, and the manifests chained to it."""
    path = folder(desk, number) / "groups.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    change(records)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    for name in ("rows.csv", "values.csv"):
        (folder(desk, number) / name).unlink()
    edit_manifest(desk, number, content=sha256(path.read_bytes()).hexdigest())
    for later in range(number + 1, 5):
        before = (folder(desk, later - 1) / "manifest.json").read_bytes()
        edit_manifest(desk, later, previous=sha256(before).hexdigest())


def drop_a_release(desk: Desk) -> None:
    shutil.rmtree(folder(desk, 2))


def drop_the_last_release(desk: Desk) -> None:
    shutil.rmtree(folder(desk, 4))


def publish_two_contents(desk: Desk) -> None:
    shutil.copytree(folder(desk, 1), desk.out / "release-00002")


def swap_a_byte_of_the_records(desk: Desk) -> None:
    path = folder(desk, 3) / "groups.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"formed":1', b'"formed": 1', 1))


def edit_a_manifest_in_the_middle(desk: Desk) -> None:
    edit_manifest(desk, 2, engine="9.9")


def cut_a_manifest(desk: Desk) -> None:
    path = folder(desk, 2) / "manifest.json"
    path.write_bytes(path.read_bytes()[:-5])


def name_another_table(desk: Desk) -> None:
    edit_manifest(desk, 4, table="other")


def count_rows_wrongly(desk: Desk) -> None:
    edit_manifest(desk, 4, rows=1)


def count_suppressed_wrongly(desk: Desk) -> None:
    edit_manifest(desk, 4, suppressed=99)


def count_generalized_wrongly(desk: Desk) -> None:
    edit_manifest(desk, 4, generalized=99)


def count_formed_wrongly(desk: Desk) -> None:
    edit_manifest(desk, 4, formed=99)


def state_another_discernibility(desk: Desk) -> None:
    path = folder(desk, 4) / "manifest.json"
    loss = json.loads(path.read_text())["loss"]
    edit_manifest(desk, 4, loss={**loss, "discernibility": loss["discernibility"] - 1})


def state_another_ncp(desk: Desk) -> None:
    path = folder(desk, 4) / "manifest.json"
    loss = json.loads(path.read_text())["loss"]
    edit_manifest(desk, 4, loss={**loss, "ncp": loss["ncp"] + 0.001})


def write_a_broken_record(desk: Desk) -> None:
    path = folder(desk, 1) / "groups.jsonl"
    path.write_bytes(path.read_bytes() + b'{"table": "clinic"}\n')


def write_no_json(desk: Desk) -> None:
    path = folder(desk, 1) / "groups.jsonl"
    path.write_bytes(b"\xff\n" + path.read_bytes())


def show_an_unknown_value(desk: Desk) -> None:
    edit_groups(desk, 4, lambda records: records[0]["sensitive"].update({"nonsense": 1}))


def publish_counterfeits(desk: Desk) -> None:
    edit_groups(desk, 4, lambda records: records[0].update(counterfeits=1))


def use_a_group_twice(desk: Desk) -> None:
    edit_groups(desk, 4, lambda records: records.append(records[0]))


def change_a_carried_group(desk: Desk) -> None:
    def change(records: list[dict[str, Any]]) -> None:
        carried = next(record for record in records if record["formed"] < 4)
        label = next(iter(carried["sensitive"]))
        carried["sensitive"][label] += 1

    edit_groups(desk, 4, change)


def make_up_a_past(desk: Desk) -> None:
    def change(records: list[dict[str, Any]]) -> None:
        next(record for record in records if record["formed"] == 4)["formed"] = 2

    edit_groups(desk, 4, change)


def every_cell(desk: Desk, change: Callable[[dict[str, Any]], None]) -> None:
    def change_all(records: list[dict[str, Any]]) -> None:
        for cell in (cell for record in records for cell in record["cells"]):
            change(cell)

    edit_groups(desk, 4, change_all)


def widen_a_region(desk: Desk) -> None:
    every_cell(desk, lambda cell: cell["region"]["age"].update(min=-1))


def reverse_a_region(desk: Desk) -> None:
    every_cell(desk, lambda cell: cell.update(region=dict(reversed(cell["region"].items()))))


def name_a_label_twice(desk: Desk) -> None:
    every_cell(desk, lambda cell: cell["region"]["sex"].update(nodes=2 * cell["region"]["sex"]["nodes"]))


def publish_no_region(desk: Desk) -> None:
    every_cell(desk, lambda cell: cell.update(region={}))


def rename_a_cell(desk: Desk) -> None:
    every_cell(desk, lambda cell: cell.update(cell=cell["cell"] + "0"))


def merge_two_cells(desk: Desk) -> None:
    def change(records: list[dict[str, Any]]) -> None:
        names = {cell["cell"] for record in records for cell in record["cells"]}
        free = names - {cell["cell"] for cell in records[0]["cells"]}
        records[0]["cells"][0]["cell"] = min(free)

    edit_groups(desk, 4, change)


def edit_the_spreadsheet(desk: Desk) -> None:
    path = folder(desk, 3) / "values.csv"
    path.write_text(path.read_text().replace(",1\n", ",2\n", 1))


def leave_private_files_in_public(desk: Desk) -> None:
    shutil.copy(desk.path / "private" / "release-0001.members.jsonl", desk.out)


@pytest.mark.parametrize(
    ("tamper", "expected"),
    [
        (drop_a_release, "a release number is missing"),
        (publish_two_contents, "a number is used for two releases"),
        (swap_a_byte_of_the_records, "a manifest's content is not what is published"),
        (edit_a_manifest_in_the_middle, "a manifest does not name the one before it"),
        (cut_a_manifest, "a manifest cannot be read"),
        (name_another_table, "a manifest is of another release or table"),
        (count_rows_wrongly, "rows in a manifest is not what its records add up to"),
        (count_suppressed_wrongly, "suppressed in a manifest is not what its records add up to"),
        (count_generalized_wrongly, "generalized in a manifest is not what its records add up to"),
        (count_formed_wrongly, "formed in a manifest is not what its records add up to"),
        (state_another_discernibility, "discernibility in a manifest is not what its records come to"),
        (state_another_ncp, "ncp in a manifest is not what its records come to"),
        (write_a_broken_record, "a group record cannot be read"),
        (write_no_json, "a group record cannot be read"),
        (show_an_unknown_value, "a group's values are not counts of nodes of the hierarchy"),
        (publish_counterfeits, "counterfeits in a manifest is not what its records add up to"),
        (use_a_group_twice, "a group or cell stands twice in a release"),
        (change_a_carried_group, "a carried group is not what it was"),
        (make_up_a_past, "a group says it was formed in a release that does not have it"),
        (widen_a_region, "a region's end lies outside its domain"),
        (reverse_a_region, "a region does not have every attribute in the policy's order"),
        (name_a_label_twice, "a region is not written in the one way it may be"),
        (publish_no_region, "a region cannot be read"),
        (rename_a_cell, "a region has two cells"),
        (merge_two_cells, "a cell has two regions"),
        (edit_the_spreadsheet, "rows.csv or values.csv do not say what the records say"),
        (leave_private_files_in_public, "a private file lies in the folder that is published"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_was_tampered_with_is_seen_by_anyone(desk: Desk, tamper: Callable[[Desk], None], expected: str) -> None:
    assert desk.audit_publicly() == 0
    desk.said()
    tamper(desk)
    assert desk.audit_publicly() == 1
    assert expected in desk.said()


def edit_members(desk: Desk, change: Callable[[list[dict[str, str]]], None]) -> None:
    path = desk.path / "private" / "release-0004.members.jsonl"
    members = [json.loads(line) for line in path.read_text().splitlines()]
    change(members)
    path.write_text("".join(json.dumps(member) + "\n" for member in members))


def swap_two_people(desk: Desk) -> None:
    def change(members: list[dict[str, str]]) -> None:
        one = members[0]
        other = next(member for member in members if member["cell"] != one["cell"] and member["group"] != one["group"])
        one["id"], other["id"] = other["id"], one["id"]

    edit_members(desk, change)


def forget_a_member(desk: Desk) -> None:
    edit_members(desk, lambda members: members.__delitem__(-1))


def name_a_member_twice(desk: Desk) -> None:
    edit_members(desk, lambda members: members.append(members[0]))


def name_a_stranger(desk: Desk) -> None:
    edit_members(desk, lambda members: members[0].update(id="canary-stranger"))


def name_a_strange_group(desk: Desk) -> None:
    edit_members(desk, lambda members: members[0].update(group="g99999"))


@pytest.mark.parametrize(
    ("tamper", "expected"),
    [
        (drop_the_last_release, "the events make a release that is not published"),
        (swap_two_people, "a region does not hold the person in it"),
        (forget_a_member, "a group's rows are not the people in it"),
        (name_a_member_twice, "a person is published twice in a release"),
        (name_a_stranger, "somebody is published who is not present"),
        (name_a_strange_group, "the membership names a group or cell that is not published"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_does_not_fit_the_truth_is_seen_with_it(desk: Desk, tamper: Callable[[Desk], None], expected: str) -> None:
    tamper(desk)
    assert desk.audit() == 1
    said = desk.said()
    assert expected in said
    assert "canary" not in said


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
    assert desk.audit("--json", "--seed", "s") == 0
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
    def pseudonyms(*seed: str) -> set[str]:
        desk.audit("--json", *seed)
        return {one["pseudonym"] for one in json.loads(desk.said())["private"]["worst"]}

    assert pseudonyms("--seed", "a") == pseudonyms("--seed", "a")
    assert not pseudonyms("--seed", "a") & pseudonyms("--seed", "b")
    assert not pseudonyms() & pseudonyms()


def test_public_mode_says_what_it_cannot_know(desk: Desk) -> None:
    assert desk.audit_publicly("--json") == 0
    report = json.loads(desk.said())
    assert report["promises"]["G4"]["verdict"] == "not decided"
    assert report["private"] is None
    manifest = json.loads((folder(desk, 4) / "manifest.json").read_text())
    assert report["public"]["most"]["about"] >= manifest["max_breach"] - 1e-9


def test_events_that_replay_and_the_contract_judge_differently_are_noted(desk: Desk) -> None:
    path = desk.out / "rejects.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    assert desk.audit() == 0
    assert "1 events were taken that do not count by the contract" in desk.said()


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
