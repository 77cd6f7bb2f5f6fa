"""`shoal audit` on folders that somebody has tampered with: it sees each, with the truth or without."""

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from tests.unit.audit.test_folders import Desk, desk, edit_manifest, folder, made

__all__ = ["desk", "made"]  # fixtures


def edit_groups(desk: Desk, number: int, change: Callable[[list[dict[str, Any]]], None]) -> None:
    edit_records(desk, number, "groups.jsonl", change)


def edit_records(desk: Desk, number: int, file: str, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Edits records, and seals them anew: content, and the manifests chained to it. The spreadsheets stay."""
    path = folder(desk, number) / file
    records = [json.loads(line) for line in path.read_text().splitlines()]
    change(records)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    content = b"".join((folder(desk, number) / name).read_bytes() for name in ("cells.jsonl", "groups.jsonl"))
    edit_manifest(desk, number, content=sha256(content).hexdigest())
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
        for cell in records:
            change(cell)

    edit_records(desk, 4, "cells.jsonl", change_all)


def widen_a_region(desk: Desk) -> None:
    every_cell(desk, lambda cell: cell["region"]["age"].update(min=-1))


def reverse_a_region(desk: Desk) -> None:
    every_cell(desk, lambda cell: cell.update(region=dict(reversed(cell["region"].items()))))


def name_a_label_twice(desk: Desk) -> None:
    every_cell(desk, lambda cell: cell["region"]["sex"].update(nodes=2 * cell["region"]["sex"]["nodes"]))


def publish_no_region(desk: Desk) -> None:
    every_cell(desk, lambda cell: cell.update(region={}))


def rename_a_cell(desk: Desk) -> None:
    def rename(records: list[dict[str, Any]]) -> None:
        for record in records:
            record["cells"] = {f"{cell}0": rows for cell, rows in record["cells"].items()}

    every_cell(desk, lambda cell: cell.update(cell=cell["cell"] + "0"))
    edit_groups(desk, 4, rename)


def swap_two_cells(desk: Desk) -> None:
    def change(records: list[dict[str, Any]]) -> None:
        records[0]["region"], records[1]["region"] = records[1]["region"], records[0]["region"]

    edit_records(desk, 4, "cells.jsonl", change)


def count_people_wrongly(desk: Desk) -> None:
    edit_records(desk, 4, "cells.jsonl", lambda records: records[0].update(people=records[0]["people"] + 1))


def list_a_cell_without_rows(desk: Desk) -> None:
    edit_records(desk, 4, "cells.jsonl", lambda records: records.append({**records[0], "cell": "c9999"}))


def forget_a_cell(desk: Desk) -> None:
    edit_records(desk, 4, "cells.jsonl", lambda records: records.__delitem__(0))


def list_a_cell_twice(desk: Desk) -> None:
    edit_records(desk, 4, "cells.jsonl", lambda records: records.append(records[0]))


def say_more_of_a_cell(desk: Desk) -> None:
    edit_records(desk, 4, "cells.jsonl", lambda records: records[0].update(since=1))


def write_a_broken_cell(desk: Desk) -> None:
    edit_records(desk, 4, "cells.jsonl", lambda records: records[0].update(people="many"))


def change_without_being_formed(desk: Desk) -> None:
    edit_groups(desk, 4, lambda records: next(r for r in records if r["formed"] < 4).update(changed=4))


def name_another_model(desk: Desk) -> None:
    edit_manifest(desk, 4, values="lasting")


def leave_out_a_field(desk: Desk) -> None:
    path = folder(desk, 4) / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["cells"]
    path.write_text(json.dumps(manifest))


def leave_out_the_spreadsheet(desk: Desk) -> None:
    (folder(desk, 3) / "rows.csv").unlink()


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
        (swap_two_cells, "a cell has two regions"),
        (count_people_wrongly, "a cell's people are more than its rows, or, where a row is a person, not as many"),
        (list_a_cell_without_rows, "a cell has a record and no rows"),
        (forget_a_cell, "a group names a cell that has no record"),
        (list_a_cell_twice, "a group or cell stands twice in a release"),
        (say_more_of_a_cell, "a record has a field that the contract does not name"),
        (write_a_broken_cell, "a cell record cannot be read"),
        (change_without_being_formed, "a group of a redrawn table says that it changed since it was formed"),
        (name_another_model, "a manifest names another model of values than the policy"),
        (leave_out_a_field, "a manifest cannot be read"),
        (leave_out_the_spreadsheet, "a release lacks rows.csv or values.csv"),
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


def test_another_format_is_refused_with_one_sentence(desk: Desk) -> None:
    edit_manifest(desk, 1, format=3)
    assert desk.audit_publicly() == 2
    said = desk.said()
    assert "release-0001 is in format 3; this audit reads format 1 only" in said
    assert len(said.strip().splitlines()) == 1
