"""Lines in blocks: the same lines as anyone else would read, and skipping what was done before."""

import os
import threading
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.streams.errors import InputError
from shoal.streams.files import event_lines as module
from shoal.streams.files.event_lines import EventFile, EventLines, open_file


def read(source: EventLines) -> list[bytes]:
    return [line for block in source.blocks() for line in block]


def lines_of(descriptor: int, name: str) -> EventLines:
    file = EventFile(descriptor, name)
    return EventLines(file.blocks, can_reread=file.can_reread)


def digest(lines: list[bytes]) -> bytes:
    return sha256(b"".join(line + b"\n" for line in lines)).digest()


def piped(content: bytes) -> EventLines:
    reader, writer = os.pipe()

    def write() -> None:
        with os.fdopen(writer, "wb") as file:
            file.write(content)

    threading.Thread(target=write).start()
    return lines_of(reader, "pipe")


@given(content=st.binary(max_size=200).map(lambda raw: raw.replace(b"\x00", b"\n")), block=st.integers(1, 40))
def test_lines_are_what_splitting_at_line_feeds_gives(
    content: bytes, block: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines"
    path.write_bytes(content)
    expected = content.split(b"\n")
    if not expected[-1]:
        expected.pop()
    before, module.BLOCK_BYTES = module.BLOCK_BYTES, block
    try:
        with open_file(str(path)) as file:
            assert [line for block in file.blocks() for line in block] == expected
    finally:
        module.BLOCK_BYTES = before


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
@pytest.mark.parametrize("kind", ["file", "pipe"])
@pytest.mark.parametrize("done", [0, 1, 3, 5])
def test_lines_done_before_are_skipped_if_they_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, block: int, done: int
) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", block)
    content = [b"one", b"", b"three", b"four", b"five"]
    path = tmp_path / "events"
    path.write_bytes(b"\n".join(content))

    def opened() -> EventLines:
        return piped(path.read_bytes()) if kind == "pipe" else lines_of(os.open(path, os.O_RDONLY), "file")

    same = opened()
    assert same.skip(done, digest(content[:done]))
    assert same.number == done
    assert read(same) == content[done:]
    other = opened()
    assert other.skip(done, digest([b"other"] * done)) == (done == 0)
    assert other.number == 0
    assert read(other) == content
    longer = opened()
    assert not longer.skip(9, digest([b"x"] * 9)), "the file is shorter than what was done"
    assert read(longer) == content


def test_the_digest_of_lines_does_not_depend_on_a_last_line_feed_or_on_where_blocks_end(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(b"one\ntwo")
    with open_file(str(path)) as file:
        lines = EventLines(file.blocks, can_reread=True)
        for block in lines.blocks():
            lines.done(block)
        assert lines.digest.digest() == digest([b"one", b"two"])
        assert lines.number == 2


def test_what_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"), open_file(str(tmp_path / "missing")):
        pass
    with pytest.raises(InputError, match="cannot be read: Is a directory"), open_file(str(tmp_path)) as file:
        next(file.blocks())
