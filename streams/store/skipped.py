"""Records that an operator has left out: which they are, and how a table forgets that it has read one.

A skipped record counts as rejected, wherever it is read. The set only grows. A record that is part of a release cannot
be left out any more. One that is part of an open window can: its partition goes back to where the window began and
reads it again, without the record. Rejects of that window are found on the dead-letter topic and not sent twice, as
after Redis was set back (streams/deadletter/box.py).
"""

import secrets
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shoal.streams.store.keys import SKIPPED
from shoal.streams.store.store import Store


class SkippedRecord(NamedTuple):
    """A record, by the label of its source."""

    label: str
    offset: int


async def leave_out(store: Store, token: str, record: SkippedRecord, begin: int, release: int) -> str:
    """Leave a record out. `begin` is where the open window, that of `release`, begins in an events partition.

    Answers ok; known, if it was left out before; late, if it is part of a release; unknown, if there is no such
    partition. Raises FencedError if `token` is not the planner's, LostError.
    """
    fresh = secrets.token_hex(12)
    return await store.order("leave_out", token, record.label, record.offset, begin, release, fresh)


async def read_skipped(store: Store) -> Mapping[str, frozenset[int]]:
    """By label, the offsets of all records that were left out."""
    return group_members(await store.redis.smembers(store.key(SKIPPED)))


def group_members(members: Iterable[bytes]) -> Mapping[str, frozenset[int]]:
    """The set's members, by label."""
    found: dict[str, set[int]] = {}
    for member in members:
        label, _, offset = member.decode().rpartition(":")
        found.setdefault(label, set()).add(int(offset))
    return {label: frozenset(offsets) for label, offsets in found.items()}


def members_of(skipped: Mapping[str, frozenset[int]]) -> list[str]:
    """The inverse."""
    return [f"{label}:{offset}" for label, offsets in skipped.items() for offset in sorted(offsets)]
