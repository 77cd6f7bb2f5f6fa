"""What a planned release writes to Redis, in chunks small enough for one script each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shoal.core.events.window import OFFSETS, Delta
from shoal.core.plan import Plan
from shoal.core.state import State, WholeChange
from shoal.streams.store.encryption import Cipher
from shoal.streams.store.keys import EXTERNAL, OUTBOX, foreign_key, rejects_key
from shoal.streams.store.records import CHUNK, KINDS, Chunk, Counts, RejectNote, encode, pack, unpack
from shoal.streams.store.window_log import foreign_fields

_RECORDS_BYTES = 64 * 1024  # of releases' records, in one field of the outbox
_OUTBOX_FIELDS = 16  # in one chunk
_HEADER = b"header:"
_MANIFEST = b"manifest"

Headers = Sequence[tuple[str, bytes]]


@dataclass(frozen=True, kw_only=True)
class SealedRelease:
    """The records of a release for the releases topic, as they lie in Redis from the seal until they are sent."""

    number: int
    records: Sequence[bytes]
    manifest: bytes
    headers: Headers
    """Of the manifest's record."""


def chunks_of(
    made: Plan,
    cipher: Cipher,
    *,
    foreign: Mapping[int, Sequence[str]],
    headers: Headers = (),
    external_ends: Sequence[int] = (),
    rejects: Mapping[str, Sequence[RejectNote]] | None = None,
) -> Iterator[Chunk]:
    """Everything that a plan changes, packed as it is read: that takes seconds for a million people, so in a thread.

    `foreign` comes from `foreign_ids`; `rejects` are, by label, those that reading the external topic found.
    """
    for kind in KINDS:
        yield from encode(kind, kind.of_change(made.change), cipher)
    yield from _chunked(EXTERNAL, offset_fields(external_ends))
    release = made.release
    sealed = SealedRelease(number=release.number, records=release.records, manifest=release.manifest, headers=headers)
    yield from _chunked(OUTBOX, outbox_fields(sealed), _OUTBOX_FIELDS)
    waiting: dict[str, list[RejectNote]] = {}
    for partition, offset in made.misrouted:
        waiting.setdefault(str(partition), []).append(RejectNote(offset, "wrong-partition"))
    for label, notes in {**waiting, **(rejects or {})}.items():
        numbered = ((str(number).encode(), pack(note)) for number, note in enumerate(notes))
        yield from _chunked(rejects_key(label), [part for pair in numbered for part in pair])
    for partition, ids in foreign.items():
        yield from _chunked(foreign_key(release.number, partition), foreign_fields(ids))


def foreign_ids(made: Plan, state: State, windows: Mapping[int, Mapping[str, Delta]]) -> dict[int, list[str]]:
    """By partition, the ids that are at home elsewhere. `state` is the one the plan started from."""
    found: dict[int, list[str]] = {}
    for partition in sorted({partition for partition, _ in made.misrouted}):
        for person, delta in windows[partition].items():
            if delta[OFFSETS] is None:
                continue
            row = state.people.row(person)
            home = made.change.people[person].home if row is None else int(state.people.home[row])
            if home != partition:
                found.setdefault(partition, []).append(person)
    return found


def counts_after(made: Plan, state: State, before: Counts) -> Counts:
    """How many records there are once a plan is applied. `state` is the one the plan started from."""
    if isinstance(made.change, WholeChange):
        return Counts(*(len(getattr(made.change, kind.name)) for kind in KINDS))
    added = (kind.count_new(made.change, state) for kind in KINDS)
    return Counts(*(count + more for count, more in zip(before, added, strict=True)))


def offset_fields(ends: Sequence[int]) -> list[bytes]:
    """Where reading of the external topic stopped, as fields and values of the key `external`."""
    return [part for number, end in enumerate(ends) for part in (str(number).encode(), str(end).encode())]


def outbox_fields(sealed: SealedRelease) -> list[bytes]:
    """Many records to a field, which is numbered by the first of them: a field each would be most of the work."""
    fields: list[bytes] = []
    first, size = 0, 0
    for number, record in enumerate(sealed.records):
        if size and size + len(record) > _RECORDS_BYTES:
            fields += (str(first).encode(), pack(sealed.records[first:number]))
            first, size = number, 0
        size += len(record)
    if size:
        fields += (str(first).encode(), pack(sealed.records[first:]))
    for name, value in sealed.headers:
        fields += (_HEADER + name.encode(), value)
    return [*fields, _MANIFEST, sealed.manifest]


def read_outbox(number: int, found: Iterable[tuple[bytes, bytes]]) -> SealedRelease | None:
    """The inverse; None if the manifest is not there."""
    parts: dict[int, tuple[bytes, ...]] = {}
    manifest, headers = b"", {}
    for field, value in found:
        if field == _MANIFEST:
            manifest = value
        elif field.startswith(_HEADER):
            headers[field.removeprefix(_HEADER).decode()] = value
        else:
            parts[int(field)] = unpack(value)
    if not manifest:
        return None
    records = [record for first in sorted(parts) for record in parts[first]]
    return SealedRelease(number=number, records=records, manifest=manifest, headers=sorted(headers.items()))


def _chunked(key: str, fields: list[bytes], size: int = CHUNK) -> Iterator[Chunk]:
    for start in range(0, len(fields), 2 * size):
        yield Chunk(key, fields[start : start + 2 * size])
