"""The events of a file, of standard input or of a caller's list, as lines of JSON.

Lines come in blocks, because a million calls of `readline` cost a second. A run can resume: `EventLines.skip` reads the
lines that an earlier run has done. If they are not the same lines, it gives them back, and the source is then taken to
hold only what is new. A source that cannot be read twice (a pipe) is kept in memory until that is known.
"""

import codecs
import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from itertools import islice
from typing import Any, cast

from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.files.formats import find_reader
from shoal.streams.files.formats.format import LINES_PER_BLOCK, Blocks, EventReader, FormatChoice, Line, NamedBlocks

BLOCK_BYTES = 1 << 20
_LONGEST_MARK = 4
STANDARD_INPUT = "-"
BY_NAME = FormatChoice()

# The path of a file, `-` for standard input, a tuple of several, or events in memory.
Events = str | tuple[str, ...] | Iterable[Mapping[str, Any]]


class EventFile:
    """An open file or pipe of lines; a last line without a line feed is a line."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor, self._name = descriptor, name
        status = os.fstat(descriptor)
        self.can_reread = stat.S_ISREG(status.st_mode)
        self._start = os.lseek(descriptor, 0, os.SEEK_CUR) if self.can_reread else 0
        self.size_bytes = status.st_size - self._start if self.can_reread else None

    def blocks(self) -> Blocks:
        """Yields lines without their line feeds, some thousands at a time, as soon as they are there."""
        if self.can_reread:
            os.lseek(self._descriptor, self._start, os.SEEK_SET)
        begun: list[bytes] = []  # pieces of a line whose end has not been read
        block = self._head()
        while block:
            head, *lines = block.split(b"\n")
            begun.append(head)
            if lines:
                last = lines.pop()
                yield [b"".join(begun), *lines]
                begun = [last] if last else []
            block = self._block()
        if any(begun):
            yield [b"".join(begun)]

    def _head(self) -> bytes:
        """The first block, without a byte order mark. Raises `InputError` if it is not UTF-8 but another Unicode."""
        head = self._block()
        while len(head) < _LONGEST_MARK and (more := self._block()):
            head += more
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\x00" in head[:_LONGEST_MARK]:
            raise InputError(f"{self._name} is UTF-16 or UTF-32, or no text at all; save it as UTF-8.")
        return head.removeprefix(codecs.BOM_UTF8)

    def _block(self) -> bytes:
        try:
            return os.read(self._descriptor, BLOCK_BYTES)
        except OSError as error:
            raise InputError(f"{self._name} cannot be read: {os.strerror(error.errno or 0)}.") from None


class EventLines:
    """The lines of one source, which `read` starts from the beginning. `number` is how many are done."""

    def __init__(
        self,
        read: Callable[[], Blocks],
        *,
        can_reread: bool,
        size_bytes: int | None = None,
        reader: EventReader | None = None,
    ) -> None:
        self._read, self._can_reread, self.size_bytes = read, can_reread, size_bytes
        self._reader = reader
        self.digest = sha256()
        self.number = 0
        self._given_back: list[list[bytes]] = []
        self._source = read()

    @property
    def is_panel(self) -> bool:
        return self._reader is not None and self._reader.is_panel

    @property
    def left_out(self) -> int:
        """Rows that a mapping leaves out, as far as lines have been read."""
        return 0 if self._reader is None else self._reader.left_out

    def blocks(self) -> Blocks:
        """Yields the lines that are not done."""
        while self._given_back:
            yield self._given_back.pop(0)
        # Not `yield from`, which would close the source when a caller stops reading here.
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
            if not self._can_reread:
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
        if self._can_reread:
            self._given_back, self._source = [], self._read()
        else:
            self._given_back = kept


@contextmanager
def open_file(source: str) -> Iterator[EventFile]:
    """Opens a file, or standard input for `-`. Raises `InputError` if that cannot be done."""
    if source == STANDARD_INPUT:
        if sys.stdin is None:
            raise InputError("standard input is closed.")
        yield EventFile(sys.stdin.fileno(), "standard input")
        return
    try:
        descriptor = os.open(source, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"{source} cannot be read: {os.strerror(error.errno or 0)}.") from None
    try:
        yield EventFile(descriptor, source)
    finally:
        os.close(descriptor)


def names_of(events: Events) -> tuple[str, ...] | None:
    """The sources that these events are read from; None if they are in memory."""
    if isinstance(events, str):
        return (events,)
    is_names = isinstance(events, tuple) and bool(events) and all(isinstance(name, str) for name in events)
    return tuple(str(name) for name in events) if is_names else None


@contextmanager
def open_reader(
    policy: Policy, sources: tuple[str, ...], choice: FormatChoice = BY_NAME
) -> Iterator[tuple[EventReader, Iterator[Line]]]:
    """The reader of files, and their events, each with its line. Raises `InputError`."""
    reader = find_reader(sources[0], policy, choice, *sources[1:])
    with ExitStack() as stack:
        files = [(name, stack.enter_context(open_file(name))) for name in sources]
        yield reader, reader.read_files([NamedBlocks(name, file.blocks()) for name, file in files])


@contextmanager
def open_events(policy: Policy, source: str, choice: FormatChoice = BY_NAME) -> Iterator[Iterator[Line]]:
    """The events of a file, each with its line. Raises `InputError`."""
    with open_reader(policy, (source,), choice) as (_, lines):
        yield lines


@contextmanager
def open_lines(policy: Policy, events: Events, choice: FormatChoice = BY_NAME) -> Iterator[EventLines]:
    """The events of files or of memory as lines of JSON, whatever the format. Raises `InputError`."""
    names = names_of(events)
    if names is None:
        yield EventLines(lambda: _write_json(cast(Iterable[Mapping[str, Any]], events)), can_reread=False)
        return
    reader = find_reader(names[0], policy, choice, *names[1:])
    with ExitStack() as stack:
        files = [(name, stack.enter_context(open_file(name))) for name in names]
        sizes = [file.size_bytes for _, file in files]
        # Lines made from others are of another length than the file's.
        size_bytes = sizes[0] if reader.is_json and len(files) == 1 else None
        yield EventLines(
            lambda: reader.as_json([NamedBlocks(name, file.blocks()) for name, file in files]),
            can_reread=all(file.can_reread for _, file in files),
            size_bytes=size_bytes,
            reader=reader,
        )


def read_lines(policy: Policy, sources: Iterable[str], choice: FormatChoice = BY_NAME) -> Iterator[bytes]:
    """The lines of these files, read together. Raises `InputError`."""
    with open_lines(policy, tuple(sources), choice) as lines:
        for block in lines.blocks():
            yield from block


def _write_json(events: Iterable[Mapping[str, Any]]) -> Blocks:
    remaining, number = iter(events), 0
    while block := list(islice(remaining, LINES_PER_BLOCK)):
        try:
            yield [json.dumps(event).encode() for event in block]
        except (TypeError, ValueError):
            raise InputError(f"an event after the first {number:,} cannot be written as JSON.") from None
        number += len(block)
