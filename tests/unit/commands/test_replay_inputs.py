"""`shoal replay` on files that editors and other systems write: marks, other encodings, nothing usable, times."""

import json
from pathlib import Path

import pytest

from shoal.streams.cli import main
from shoal.streams.files.rejects import rejects_beside

POLICY = """\
table: t
attributes: {age: {type: int, min: 0, max: 99}}
sensitive: {name: disease, values: [flu, gout, ulcer, cold]}
privacy: {k: 2, l: 2}
"""
EVENTS = [
    *({"op": "insert", "id": f"p{age}", "qid": {"age": age}, "sensitive": "flu"} for age in range(4)),
    {"op": "release"},
]


class Desk:
    """A folder with a policy in it, and the command to run."""

    def __init__(self, path: Path) -> None:
        self.path, self.out = path, path / "out"
        (path / "policy.yaml").write_text(POLICY)

    def replay(self, content: bytes, *options: str) -> int:
        (self.path / "events.jsonl").write_bytes(content)
        files = [str(self.path / "policy.yaml"), str(self.path / "events.jsonl"), "--out", str(self.out)]
        return main(["replay", *files, "--seed", "s", *options])

    def rejects(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in rejects_beside(self.out).read_text().splitlines()]

    def times(self) -> list[str | None]:
        manifests = sorted(self.out.glob("release-*/manifest.json"))
        return [json.loads(manifest.read_text())["published_at"] for manifest in manifests]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def text(*events: object) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


def test_a_byte_order_mark_is_not_part_of_the_first_event(desk: Desk) -> None:
    assert desk.replay(text(*EVENTS).encode("utf-8-sig")) == 0
    assert desk.rejects() == []


@pytest.mark.parametrize("mark", [b"", b"\xef", b"\xef\xbb\xbf"])
def test_a_file_of_a_mark_or_less_is_an_empty_file(desk: Desk, mark: bytes) -> None:
    assert desk.replay(mark) == (2 if mark == b"\xef" else 0)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_another_encoding_is_refused_in_words(desk: Desk, encoding: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert desk.replay(text(*EVENTS).encode(encoding)) == 2
    assert "save it as UTF-8" in capsys.readouterr().err
    assert not list(desk.out.glob("release-*"))


def test_a_file_of_which_nothing_could_be_used_is_wrong_input(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert desk.replay(b"age,disease\n34,flu\n35,gout\n") == 2
    assert "nothing could be released: no event of" in capsys.readouterr().err
    assert [reject["reason"] for reject in desk.rejects()] == ["bad-json"] * 3


def test_rejects_beside_something_usable_are_no_failure(desk: Desk) -> None:
    assert desk.replay(text(EVENTS[0], EVENTS[0], EVENTS[0]).encode()) == 0
    assert len(desk.rejects()) == 2


def test_a_release_names_no_earlier_time_than_one_before(desk: Desk) -> None:
    times = ["2024-03-04T03:00:00Z", None, "2024-03-04T03:59:59+01:00", "2024-03-04T03:00:00", "2024-03-05"]
    asked = [{"op": "release"} if at is None else {"op": "release", "at": at} for at in times]
    assert desk.replay(text(*EVENTS[:4], *asked).encode(), "--state", str(desk.path / "state")) == 0
    out_of_order = {"op": "release", "reason": "out-of-order", "field": "at"}
    assert desk.rejects() == [{"line": 7, **out_of_order}]
    assert desk.times() == [times[0], None, times[3], times[4]]
    later = text({"op": "release", "at": "2024-03-04T23:00:00Z"}, {"op": "release"})
    assert desk.replay(later.encode(), "--state", str(desk.path / "state")) == 0
    assert desk.rejects() == [{"line": 7, **out_of_order}, {"line": 1, **out_of_order}]
