"""One registry of file formats: what `produce` can read, every other command can, under the same line numbers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.core.policy.policy import Policy
from shoal.streams.cli import main
from shoal.streams.errors import InputError
from shoal.streams.files import formats
from shoal.streams.files.event_lines import EventLines, open_events, open_lines, read_lines
from shoal.streams.files.formats import FORMATS, PUBLISHED, find_reader
from shoal.streams.files.formats.format import Blocks, EventReader, FormatChoice, Line
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.files.rejects import rejects_beside
from shoal.streams.files.true_tables import tables_at_releases

CANARY = "canary-7f3a"
POLICY = """
table: patients
attributes:
  age: {type: int, min: 0, max: 120}
  zip: {type: category, values: ["02139", "20433"]}
sensitive: {name: disease, values: [flu, asthma, gastritis, asthenia]}
privacy: {values: redrawn, k: 2, l: 2}
release: {every_events: 40}
"""
HEADER = "id,age,zip,disease\n"


def row(number: int) -> str:
    return (
        f"p{number},{20 + number},{'02139' if number % 2 else '20433'},{('flu', 'asthma', 'gastritis')[number % 3]}\n"
    )


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    (tmp_path / "policy.yaml").write_text(POLICY)
    return load_policy(tmp_path / "policy.yaml")


def replay(folder: Path, source: Path, out: str, *more: str, code: int = 0) -> Path:
    args = ["replay", str(folder / "policy.yaml"), str(source), "--out", str(folder / out), "--seed", "s", *more]
    assert main(args) == code
    return folder / out


def published(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def test_a_csv_and_the_same_events_in_json_make_the_same_releases(tmp_path: Path, policy: Policy) -> None:
    source = tmp_path / "people.csv"
    source.write_text(HEADER + "".join(map(row, range(80))))
    with open_events(policy, str(source)) as lines:
        (tmp_path / "people.jsonl").write_text("".join(json.dumps(line.event) + "\n" for line in lines))
    from_csv = published(replay(tmp_path, source, "from-csv"))
    assert "release-0002/groups.jsonl" in from_csv
    assert from_csv == published(replay(tmp_path, tmp_path / "people.jsonl", "from-json"))


def test_a_row_keeps_its_line_number_whatever_reads_it(tmp_path: Path, policy: Policy) -> None:
    source = tmp_path / "people.csv"
    source.write_text(HEADER + f'"p\n1",{CANARY},02139,flu\n\np2,30\np3,30,02139,flu\n"p\n\n4",999,02139,flu\n')
    with open_events(policy, str(source)) as lines:
        refused = [line.number for line in lines if line.event is None]
    assert refused == [3, 5, 9]
    *_, last = tables_at_releases(policy, read_lines(policy, [str(source)]))
    assert (last.accepted, last.rejected) == (1, 3)
    rejects = rejects_beside(replay(tmp_path, source, "out")).read_text()
    assert [json.loads(line)["line"] for line in rejects.splitlines()] == [3, 5, 9]
    assert CANARY not in rejects


def test_a_replay_of_a_csv_goes_on_where_it_stopped(tmp_path: Path, policy: Policy) -> None:
    source = tmp_path / "people.csv"
    source.write_text(HEADER + "".join(map(row, range(60))))
    state = ("--state", str(tmp_path / "state"))
    replay(tmp_path, source, "in-two", *state)
    source.write_text(HEADER + "".join(map(row, range(90))))
    in_two = replay(tmp_path, source, "in-two", *state)
    assert published(in_two) == published(replay(tmp_path, source, "at-once"))


def test_the_name_of_a_file_tells_its_format_and_a_flag_wins(tmp_path: Path, policy: Policy) -> None:
    (tmp_path / "people").write_text(HEADER + row(1))
    for choice, accepted in ((FormatChoice(), 0), (FormatChoice("csv"), 1)):
        *_, last = tables_at_releases(policy, read_lines(policy, [str(tmp_path / "people")], choice))
        assert last.accepted == accepted
    check = ["policy", "check", str(tmp_path / "policy.yaml"), "--sample", str(tmp_path / "people"), "--csv"]
    assert main(check) == 0


@pytest.mark.parametrize(("name", "flags"), [("people.csv", []), ("people", ["--csv"])])
def test_releases_of_a_csv_are_audited_against_the_csv(
    tmp_path: Path, policy: Policy, name: str, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    source, private = tmp_path / name, tmp_path / "private"
    source.write_text(HEADER + "".join(map(row, range(60))) + f"p99,{CANARY},02139,flu\n" + row(60))
    out = replay(tmp_path, source, "out", "--audit", str(private), *flags)
    audit = ["audit", str(tmp_path / "policy.yaml"), str(out), "--audit", str(private), "--events", str(source), *flags]
    capsys.readouterr()
    assert main(audit) == 0
    assert "note" not in capsys.readouterr().out, "replay and the auditor reject the same lines"
    chosen = "csv" if flags else None
    assert shoal.audit(policy, out, private=private, events=[source], format=chosen).is_kept
    source.write_text(source.read_text().replace("p3,23,02139,flu", "p3,24,20433,asthma"))
    assert main(audit) == 1, "another truth"


def test_names_of_columns_are_refused_where_there_are_none(policy: Policy) -> None:
    for choice in (FormatChoice(mapping=Path("map.yaml")), FormatChoice(columns={"id": "nr"})):
        with pytest.raises(InputError, match="are for CSV"):
            find_reader("events.jsonl", policy, choice)


def test_text_that_is_not_utf_8_is_refused_by_its_line(tmp_path: Path, policy: Policy) -> None:
    (tmp_path / "people.csv").write_bytes(HEADER.encode() + b"p\xe9,30,02139,flu\n")
    with pytest.raises(InputError, match=r"^line 2 is not UTF-8 text\.$"):
        list(read_lines(policy, [str(tmp_path / "people.csv")]))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_spreadsheets_byte_order_mark_and_line_ends_do_not_matter(tmp_path: Path, policy: Policy, end: str) -> None:
    (tmp_path / "people.csv").write_bytes(b"\xef\xbb\xbf" + (HEADER + row(1) + row(2)).replace("\n", end).encode())
    with open_events(policy, str(tmp_path / "people.csv")) as lines:
        assert [(line.number, line.event and line.event["id"]) for line in lines] == [(2, "p1"), (3, "p2")]


def test_events_in_memory_are_read_like_a_file(policy: Policy) -> None:
    events: list[dict[str, Any]] = [{"op": "delete", "id": f"p{number}"} for number in range(2500)]
    with open_lines(policy, events) as lines:
        assert [json.loads(line) for block in lines.blocks() for line in block] == events
    with open_lines(policy, [{"op": "delete", "id": {CANARY}}]) as lines, pytest.raises(InputError) as caught:
        list(lines.blocks())
    assert CANARY not in str(caught.value)


class Ids(EventReader):
    """A format for this test: a file of ids, each of which is deleted."""

    def read(self, blocks: Blocks) -> Iterator[Line]:
        for number, raw in enumerate((raw for block in blocks for raw in block), start=1):
            yield Line(number, {"op": "delete", "id": raw.decode()})


def test_a_new_format_is_a_module_and_one_line(tmp_path: Path, policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    module = type("ids", (), {"reader": staticmethod(lambda _policy, _choice: Ids())})
    monkeypatch.setitem(FORMATS, "ids", formats.Known("ids", (".ids",), "one id per line"))
    monkeypatch.setitem(__import__("sys").modules, "shoal.streams.files.formats.ids", module)
    (tmp_path / "gone.ids").write_text("p1\np2\n")
    assert [json.loads(line) for line in read_lines(policy, [str(tmp_path / "gone.ids")])] == [
        {"op": "delete", "id": "p1"},
        {"op": "delete", "id": "p2"},
    ]
    rejects = rejects_beside(replay(tmp_path, tmp_path / "gone.ids", "out", code=2)).read_text()
    assert [json.loads(line)["reason"] for line in rejects.splitlines()] == ["unknown-id"] * 2


def test_every_registered_format_has_its_module_and_a_suffix_of_its_own() -> None:
    for table, function in ((FORMATS, "reader"), (PUBLISHED, "read_groups")):
        suffixes = [suffix for known in table.values() for suffix in known.suffixes]
        assert len(suffixes) == len(set(suffixes))
        for known in table.values():
            module = __import__(f"shoal.streams.files.formats.{known.module}", fromlist=[function])
            assert callable(getattr(module, function))


def test_lines_that_were_not_done_come_again_after_a_failed_skip() -> None:
    lines = EventLines(lambda: iter([[b"1", b"2"], [b"3"]]), can_reread=False)
    assert not lines.skip(2, b"another digest")
    assert [line for block in lines.blocks() for line in block] == [b"1", b"2", b"3"]
