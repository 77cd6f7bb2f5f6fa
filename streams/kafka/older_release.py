"""Converts releases in an older format to this one. Every reader does this before it reads on.

Digests are always those of the bytes as they were published, so the chain is followed with those.
"""

from collections.abc import Sequence
from typing import NamedTuple

from shoal.core.audit.reading.format_one import in_format_two
from shoal.streams.errors import GuaranteeError
from shoal.streams.kafka.chain import is_format_one


class Readable(NamedTuple):
    """The records and the manifest of a release in this version's format."""

    cells: tuple[bytes, ...]
    groups: tuple[bytes, ...]
    manifest: bytes


def readable(cells: Sequence[bytes], groups: Sequence[bytes], manifest: bytes) -> Readable:
    """A release, converted if it is in format 1, which has no records of cells. Raises `GuaranteeError` if it cannot be
    read.
    """
    if not is_format_one(manifest):
        return Readable(tuple(cells), tuple(groups), manifest)
    found = in_format_two(b"".join(record + b"\n" for record in groups), manifest)
    if found is None:
        raise GuaranteeError("a release in format 1 has records that cannot be read.")
    return Readable(_lines(found.cells), _lines(found.groups), found.manifest)


def _lines(content: bytes) -> tuple[bytes, ...]:
    return tuple(content.split(b"\n")[:-1])
