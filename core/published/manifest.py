"""What a release says of itself: its manifest, read once, and the release with its exact bytes."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from shoal.core.errors import CoreError

FORMAT: Final = 1  # of releases
_COUNTED: Final = ("cells", "groups", "gone")
_HASHED_AT_ONCE: Final = 1000  # records: one buffer for all would be as large as the release


class PublishedError(CoreError):
    """A release is not what it, or the one before it, says; one sentence without its full stop."""


class OtherFormatError(PublishedError):
    """A release is in a format that this version does not read."""


class RecordCounts(NamedTuple):
    """How many records of a shard are written in a release."""

    cells: int
    groups: int
    gone: int

    @property
    def total(self) -> int:
        return sum(self)


class WholeRecords(NamedTuple):
    """All records of a table as they stand after a release, in the order of a full one."""

    cells: tuple[bytes, ...]
    groups: tuple[bytes, ...]

    @property
    def records(self) -> tuple[bytes, ...]:
        return self.cells + self.groups


@dataclass(frozen=True)
class Manifest:
    """The exact bytes of a manifest, parsed when they are first asked for, and once."""

    raw: bytes = field(repr=False)

    @cached_property
    def _parsed(self) -> Mapping[str, Any] | None:
        try:
            found = json.loads(self.raw)
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    @property
    def is_readable(self) -> bool:
        """Whether it is a JSON object."""
        return self._parsed is not None

    @property
    def told(self) -> Mapping[str, Any]:
        """What it says; nothing if it cannot be read."""
        return self._parsed or {}

    @property
    def number(self) -> int | None:
        """The number of its release, None if it names none."""
        found = self.told.get("release")
        return found if type(found) is int and found > 0 else None

    @cached_property
    def digest(self) -> str:
        """Its sha256, which the next manifest names."""
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def shards(self) -> Sequence[Mapping[str, Any]] | None:
        """What it says of each shard, None if the release is plain: all records in one part, always in full."""
        found = self.told.get("shards")
        return found if isinstance(found, list) else None

    @cached_property
    def parts(self) -> list[RecordCounts]:
        """By shard, how many records the release has; a plain one is one part.

        Raises PublishedError if it does not say.
        """
        told = self.told
        if "shards" not in told:
            cells, groups = told.get("cells"), told.get("groups")
            if type(cells) is not int or type(groups) is not int:
                raise PublishedError(
                    f"release {told.get('release')} has a manifest that does not count its cells and groups"
                )
            return [RecordCounts(cells, groups, 0)]
        if self.shards is None or not all(_is_part(part, turn) for turn, part in enumerate(self.shards)):
            raise PublishedError(f"release {told.get('release')} has a manifest that does not name its shards")
        return [RecordCounts(*(part[name] for name in _COUNTED)) for part in self.shards]

    @property
    def full_shards(self) -> set[int]:
        """The shards of which the release has all records. Raises PublishedError if it does not say."""
        parts = self.parts
        if self.shards is None:
            return set(range(len(parts)))
        return {shard for shard, part in enumerate(self.shards) if part["full"]}

    @property
    def is_full(self) -> bool:
        """Whether the release has all records of every shard. Raises PublishedError if it does not say."""
        return len(self.full_shards) == len(self.parts)

    def check_format(self, subject: str) -> None:
        """Raises OtherFormatError; `subject` is what is said to be in a format, with its verb. A manifest that cannot
        be read is left to the caller.
        """
        written = self.told.get("format") if self.is_readable else FORMAT
        if type(written) is not int or written != FORMAT:
            name = written if type(written) is int else "unknown"
            raise OtherFormatError(
                f"{subject} in format {name}, and this version of Shoal reads format {FORMAT} only; use the version "
                "that published it"
            )


@dataclass(frozen=True)
class PublishedRelease:
    """A release as it was published: the exact bytes of its records and of its manifest."""

    number: int
    cells: tuple[bytes, ...]
    groups: tuple[bytes, ...]
    head: Manifest
    gone: tuple[bytes, ...] = ()
    stands: Callable[[], WholeRecords] | None = field(default=None, repr=False, compare=False)
    """Puts it together with those before it, until the next one is read. None if it is whole."""

    @property
    def manifest(self) -> bytes:
        return self.head.raw

    @property
    def meaning(self) -> Mapping[str, Any]:
        """What the manifest says."""
        return self.head.told

    @property
    def records(self) -> tuple[bytes, ...]:
        """Its records, those of cells first, then of groups, then of what is gone, without the manifest."""
        return self.cells + self.groups + self.gone

    @cached_property
    def whole(self) -> WholeRecords:
        """All records as they stand after it; to be asked for before the next release is read."""
        return WholeRecords(self.cells, self.groups) if self.stands is None else self.stands()

    def in_full(self) -> "PublishedRelease":
        """The release with all records as they stand after it, whatever it holds itself."""
        return PublishedRelease(self.number, self.whole.cells, self.whole.groups, self.head)


def as_released(head: Manifest, records: Sequence[bytes]) -> PublishedRelease:
    """The release of records that stand part after part, each part its cells, its groups and what is gone.

    If the manifest counts others than there are, they all count as cells: the chain says what is wrong.
    """
    found: tuple[list[bytes], ...] = ([], [], [])
    at = 0
    try:
        parts = head.parts
    except PublishedError:
        parts = []
    if sum(written.total for written in parts) != len(records):
        return PublishedRelease(head.number or 0, tuple(records), (), head)
    for written in parts:
        for kind, count in zip(found, written, strict=True):
            kind += records[at : at + count]
            at += count
    cells, groups, gone = map(tuple, found)
    return PublishedRelease(head.number or 0, cells, groups, head, gone)


def content_digest(records: Sequence[bytes]) -> str:
    """The sha256 of records, each followed by a newline."""
    digest = hashlib.sha256()
    for start in range(0, len(records), _HASHED_AT_ONCE):
        digest.update(b"\n".join([*records[start : start + _HASHED_AT_ONCE], b""]))
    return digest.hexdigest()


def _is_part(part: object, turn: int) -> bool:
    return (
        isinstance(part, dict)
        and part.get("shard") == turn
        and isinstance(part.get("full"), bool)
        and all(type(part.get(name)) is int and part[name] >= 0 for name in _COUNTED)
        and isinstance(part.get("digest"), str)
        and re.fullmatch(r"[0-9a-f]{64}", part["digest"]) is not None
    )
