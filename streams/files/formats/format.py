"""What a file format provides: an `EventReader`, which turns the lines of a file into events.

A reader gets blocks, which are lists of a file's lines without their line feeds, and yields a `Line` for each event.
Its number is the number of the line in the file that the event ends on, so that a person finds it in an editor.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from shoal.core.events.event import Reject

Blocks = Iterator[list[bytes]]

LINES_PER_BLOCK = 1_000
REFUSED = b"null"  # no event under any policy


class EventLine(bytes):
    """A line of JSON that remembers where it comes from, and why a refused one, which is `null`, was refused."""

    number: int
    file: str | None
    reject: Reject | None


class Line(NamedTuple):
    """One line of input: an event, or, in words without content, why there is none in it.

    `raw` is the line as it was read, where that is JSON. `reject` is the refusal as a reject, where it is one. `file`
    is named where there are several.
    """

    number: int
    event: dict[str, Any] | None
    refusal: str | None = None
    raw: bytes | None = None
    reject: Reject | None = None
    file: str | None = None

    @property
    def json(self) -> bytes:
        if self.raw is not None:
            return self.raw
        return REFUSED if self.event is None else json.dumps(self.event).encode()

    @property
    def placed(self) -> EventLine:
        """The line of JSON with its place."""
        line = EventLine(self.json)
        line.number, line.file, line.reject = self.number, self.file, self.reject
        return line


class NamedBlocks(NamedTuple):
    """The lines of one file."""

    name: str
    blocks: Blocks


class FormatChoice(NamedTuple):
    """What the caller says about a file's format. With nothing said, the file's name tells."""

    name: str | None = None
    mapping: Path | None = None  # a file that says which column is which
    columns: Mapping[str, Any] = {}  # columns named one by one; they win over the file


class EventReader(ABC):
    """Reads the events of files. `left_out` counts rows that the mapping leaves out."""

    is_json = False  # whether a line of the file is a line of JSON already
    is_panel = False  # whether the files say how things are in each period, not what happened
    left_out = 0
    after: str | None = None  # a panel's periods up to this time were released before, and make no events

    @abstractmethod
    def read(self, blocks: Blocks) -> Iterator[Line]:
        """Yields the events of a file, from its beginning. Raises `InputError` if it is not of this format."""

    def read_files(self, files: Sequence[NamedBlocks]) -> Iterator[Line]:
        """Yields the events of several files, in their order."""
        for file in files:
            for line in self.read(file.blocks):
                yield line._replace(file=file.name) if len(files) > 1 else line

    def as_json(self, files: Sequence[NamedBlocks]) -> Blocks:
        """The events as lines of JSON, each with its place.

        Those of one file keep their numbers: a line on which no event ends becomes a blank line. A refused line becomes
        `null`: whatever reads events rejects it.
        """
        is_padded = len(files) == 1 and not self.is_panel
        number, block = 0, list[bytes]()
        for line in self.read_files(files):
            if is_padded:
                block += [b""] * (line.number - number - 1)
            block.append(line.placed)
            number = line.number
            if len(block) >= LINES_PER_BLOCK:
                yield block
                block = []
        if block:
            yield block
