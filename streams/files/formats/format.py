"""What a file format provides: an `EventReader`, which turns the lines of a file into events.

A reader gets blocks, which are lists of a file's lines without their line feeds, and yields a `Line` for each event.
Its number is the number of the line in the file that the event ends on, so that a person finds it in an editor.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

Blocks = Iterator[list[bytes]]

LINES_PER_BLOCK = 1_000
REFUSED = b"null"  # no event under any policy


class Line(NamedTuple):
    """One line of input: an event, or, in words without content, why there is none in it.

    `raw` is the line as it was read, where that is JSON.
    """

    number: int
    event: dict[str, Any] | None
    refusal: str | None = None
    raw: bytes | None = None

    @property
    def json(self) -> bytes:
        if self.raw is not None:
            return self.raw
        return REFUSED if self.event is None else json.dumps(self.event).encode()


class FormatChoice(NamedTuple):
    """What the caller says about a file's format. With nothing said, the file's name tells."""

    name: str | None = None
    mapping: Path | None = None  # a file that says which column is which
    columns: Mapping[str, Any] = {}  # columns named one by one; they win over the file


class EventReader(ABC):
    """Reads the events of one file."""

    is_json = False  # whether a line of the file is a line of JSON already

    @abstractmethod
    def read(self, blocks: Blocks) -> Iterator[Line]:
        """Yields the events of a file, from its beginning. Raises `InputError` if it is not of this format."""

    def as_json(self, blocks: Blocks) -> Blocks:
        """The events as lines of JSON under their own numbers.

        A line on which no event ends becomes a blank line. A refused one becomes `null`: whatever reads events rejects
        it, and counts it under its number.
        """
        number, block = 0, list[bytes]()
        for line in self.read(blocks):
            block += [b""] * (line.number - number - 1)
            block.append(line.json)
            number = line.number
            if len(block) >= LINES_PER_BLOCK:
                yield block
                block = []
        if block:
            yield block
