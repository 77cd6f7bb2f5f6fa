"""Lines of an events file or of standard input, in blocks, because a million calls of `readline` cost a second.

A run can resume: `skip` reads the lines an earlier run has done, and if they are not the same lines, gives them back,
so that the file is then taken to hold only what is new. What cannot be rewound (a pipe) is kept in memory until then.
"""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

from shoal.streams.errors import InputError

BLOCK_BYTES = 1 << 20
STANDARD_INPUT = "-"


class EventLines:
    """The lines of one source; a last line without a line feed is a line. `number` is how many were handed out."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor, self._name = descriptor, name
        status = os.fstat(descriptor)
        self._is_file = stat.S_ISREG(status.st_mode)
        self._start = os.lseek(descriptor, 0, os.SEEK_CUR) if self._is_file else 0
        self.size_bytes = status.st_size - self._start if self._is_file else None
        self.digest = sha256()
        self.number = 0
        self._given_back: list[list[bytes]] = []
        self._source = self._read()

    def blocks(self) -> Iterator[list[bytes]]:
        """Yields lines without their line feed, some thousands at a time, as soon as they are there."""
        while self._given_back:
            yield self._given_back.pop(0)
        # Not `yield from`, which would end the source together with whoever stops reading here.
        for block in self._source:  # noqa: UP028
            yield block

    def done(self, lines: list[bytes]) -> None:
        """Counts lines as done: from here on they are part of `number` and `digest`."""
        if lines:
            self.number += len(lines)
            self.digest.update(b"\n".join(lines))
            self.digest.update(b"\n")

    def skip(self, count: int, digest: bytes) -> bool:
        """Passes over the first `count` lines if their sha256 is `digest`; otherwise nothing is passed over."""
        kept: list[list[bytes]] = []
        for block in self.blocks() if count else ():
            missing = count - self.number
            self.done(block[:missing])
            if not self._is_file:
                kept.append(block)
            if len(block) >= missing:
                rest = block[missing:]
                break
        else:
            rest = []
        if self.number == count and self.digest.digest() == digest:
            self._given_back = [rest] if rest else []
            return True
        self._rewind(kept)
        return False

    def _rewind(self, kept: list[list[bytes]]) -> None:
        self.number, self.digest = 0, sha256()
        if self._is_file:
            os.lseek(self._descriptor, self._start, os.SEEK_SET)
            self._given_back, self._source = [], self._read()
        else:
            self._given_back = kept

    def _read(self) -> Iterator[list[bytes]]:
        begun: list[bytes] = []  # pieces of a line whose end has not been read
        while block := self._block():
            head, *lines = block.split(b"\n")
            begun.append(head)
            if lines:
                last = lines.pop()
                yield [b"".join(begun), *lines]
                begun = [last] if last else []
        if any(begun):
            yield [b"".join(begun)]

    def _block(self) -> bytes:
        try:
            return os.read(self._descriptor, BLOCK_BYTES)
        except OSError as error:
            raise InputError(f"{self._name} cannot be read: {os.strerror(error.errno or 0)}.") from None


@contextmanager
def open_lines(source: str) -> Iterator[EventLines]:
    """Opens a file, or standard input for `-`. Raises `InputError` if that cannot be done."""
    if source == STANDARD_INPUT:
        if sys.stdin is None:
            raise InputError("standard input is closed.")
        yield EventLines(sys.stdin.fileno(), "standard input")
        return
    try:
        descriptor = os.open(source, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"{source} cannot be read: {os.strerror(error.errno or 0)}.") from None
    try:
        yield EventLines(descriptor, source)
    finally:
        os.close(descriptor)
