"""Snapshots as files: nothing of them can be read, changed or left off, and each refusal is one sentence."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from shoal.streams.errors import InputError
from shoal.streams.files.fresh_file import PRIVATE, fresh_file
from shoal.streams.settings import load_settings
from shoal.streams.snapshot import encrypted_file
from shoal.streams.snapshot.encrypted_file import FORMAT, MAGIC, EncryptedFile, EncryptedWriter
from shoal.streams.snapshot.folder import drop_old, listed, path_in
from shoal.streams.snapshot.snapshot_file import SnapshotFile, secrets_of

SECRET = b"a secret of the tests"
PARTS = [b"Rosalind", b"x" * 5_000, b"", b"the end"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return _write(tmp_path / "patients-00000007.snapshot")


def _write(path: Path, parts: list[bytes] = PARTS, **about: Any) -> Path:
    with fresh_file(path, PRIVATE) as file:
        writer = EncryptedWriter(file, SECRET, {"table": "patients", "release": 7, **about})
        for part in parts[:-1]:
            writer.add(part)
        writer.finish(parts[-1])
    return path


def _read(path: Path, *secrets: bytes) -> list[bytes]:
    return list(EncryptedFile(path).parts(secrets or (SECRET,)))


def test_what_was_written_is_read_under_any_of_the_keys_one_has(path: Path) -> None:
    assert _read(path) == PARTS
    assert _read(path, b"a newer one", SECRET) == PARTS
    assert EncryptedFile(path).cover["release"] == 7
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_nothing_of_the_content_or_of_the_key_stands_in_the_file(path: Path) -> None:
    content = path.read_bytes()
    for canary in (b"Rosalind", b"the end", b"xxxx", SECRET):
        assert canary not in content
    assert path.read_bytes() != _write(path).read_bytes(), "the same content twice is the same file"


def test_a_file_under_another_key_says_so(path: Path) -> None:
    with pytest.raises(InputError, match="written under another key"):
        _read(path, b"another secret of the tests")


def test_the_first_state_key_writes_and_all_of_them_and_the_table_s_secret_read() -> None:
    first, second, key = "the first state key", "the second state key", "the secret of a table"
    with_ring = load_settings({"SHOAL_KEY": key, "SHOAL_STATE_KEY": f"{first},{second}"}, dotenv=Path("none"))
    assert secrets_of(with_ring) == [first.encode(), second.encode(), key.encode()]
    assert secrets_of(load_settings({"SHOAL_KEY": key}, dotenv=Path("none"))) == [key.encode()]


def test_a_file_of_which_any_byte_differs_is_refused(path: Path) -> None:
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(
            InputError, match=r"is damaged|is truncated|is not a snapshot|another key|in format"
        ) as found:
            _read(path)
        assert "\n" not in str(found.value)


def test_a_file_that_ends_anywhere_before_its_end_is_cut_short(path: Path) -> None:
    content = path.read_bytes()
    for end in range(len(MAGIC), len(content)):
        path.write_bytes(content[:end])
        with pytest.raises(InputError, match="is truncated"):
            _read(path)


def test_frames_cannot_be_left_out_moved_repeated_or_added(path: Path) -> None:
    content = path.read_bytes()
    head, frames = _frames(content)
    other = _frames(_write(path, [b"Rosalind", b"y" * 5_000, b"", b"the end"]).read_bytes())[1]
    wrong = [
        [frames[0], *frames[2:]],
        [frames[1], frames[0], *frames[2:]],
        [frames[0], *frames],
        [*frames, frames[-1]],
        [frames[0], other[1], *frames[2:]],
    ]
    for arranged in wrong:
        path.write_bytes(head + b"".join(arranged))
        with pytest.raises(InputError, match="is damaged"):
            _read(path)
    path.write_bytes(head + b"".join(frames))
    assert _read(path) == PARTS


def _frames(content: bytes) -> tuple[bytes, list[bytes]]:
    at = len(MAGIC) + 4 + int.from_bytes(content[len(MAGIC) :][:4])
    head, frames = content[:at], []
    while at < len(content):
        end = at + 4 + int.from_bytes(content[at : at + 4])
        frames.append(content[at:end])
        at = end
    return head, frames


def test_a_file_in_a_later_format_says_which(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encrypted_file, "FORMAT", FORMAT + 1)
    _write(path)
    monkeypatch.undo()
    with pytest.raises(InputError, match=f"in format {FORMAT + 1}, and this version of Shoal reads format {FORMAT}"):
        _read(path)


def test_a_file_of_another_table_or_of_no_table_is_refused(path: Path) -> None:
    with pytest.raises(InputError, match="is a snapshot of table patients, and not of table clinic"):
        SnapshotFile(path, "clinic")
    path.write_text(json.dumps({"table": "patients"}))
    with pytest.raises(InputError, match="is not a snapshot"):
        SnapshotFile(path, "patients")
    with pytest.raises(InputError, match="cannot be read: No such file"):
        SnapshotFile(path.with_name("nowhere"), "patients")


def test_a_write_that_fails_leaves_the_file_before_and_nothing_else(path: Path) -> None:
    def fail() -> None:
        with fresh_file(path, PRIVATE) as file:
            EncryptedWriter(file, SECRET, {}).add(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert _read(path) == PARTS
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_the_newest_snapshots_of_a_table_stay_and_other_files_are_left_alone(tmp_path: Path) -> None:
    for release in (5, 40, 7, 6, 90_000_000, 123_456_789):
        path_in(tmp_path, "ward", release).write_text("")
    path_in(tmp_path, "ward-2", 1).write_text("")
    (tmp_path / "ward-00000001.txt").write_text("")
    left, under_way = (tmp_path / f".ward-000000{release}.snapshot.partial" for release in (39, 40))
    left.write_text("")
    under_way.write_text("")
    assert [one.release for one in listed(tmp_path, "ward")] == [123_456_789, 90_000_000, 40, 7, 6, 5]
    drop_old(tmp_path, "ward", 40, 2)
    assert [one.release for one in listed(tmp_path, "ward")] == [123_456_789, 90_000_000, 40, 7]
    assert not left.exists()
    assert under_way.exists()
    assert len(list(tmp_path.iterdir())) == 7
    assert listed(tmp_path / "nowhere", "ward") == []
