"""What a planned release writes to Redis, in chunks small enough for one script each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shoal.core.events.window import OFFSETS, Delta
from shoal.core.plan import Plan
from shoal.core.state import State
from shoal.streams.store.encryption import Cipher
from shoal.streams.store.keys import EXTERNAL, OUTBOX, foreign_key, rejects_key
from shoal.streams.store.records import KINDS, Counts, Fields, RejectNote, encode, make_packer
from shoal.streams.store.window_log import foreign_fields

CHUNK = 1_000
_HEADER = b"header:"
_MANIFEST = b"manifest"

Headers = Sequence[tuple[str, bytes]]


@dataclass(frozen=True)
class Chunk:
    """Fields and values, by turns, of one key of the current state, to be written with a release."""

    key: str
    fields: list[bytes]


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
) -> list[Chunk]:
    """Everything that a plan changes. Call it in the planner's thread: packing a million people takes seconds.

    `foreign` comes from `foreign_ids`; `rejects` are, by label, those that reading the external topic found.
    """
    pack = make_packer()
    chunks: list[Chunk] = []
    for kind in KINDS:
        chunks += _chunked(encode(kind, kind.of_change(made.change), cipher, pack))
    chunks += _chunked({EXTERNAL: offset_fields(external_ends)})
    release = made.release
    sealed = SealedRelease(number=release.number, records=release.records, manifest=release.manifest, headers=headers)
    chunks += _chunked({OUTBOX: _outbox_fields(sealed)})
    waiting: dict[str, list[RejectNote]] = {}
    for partition, offset in made.misrouted:
        waiting.setdefault(str(partition), []).append(RejectNote(offset, "wrong-partition"))
    for label, notes in {**waiting, **(rejects or {})}.items():
        numbered = ((str(number).encode(), pack(note)) for number, note in enumerate(notes))
        chunks += _chunked({rejects_key(label): [part for pair in numbered for part in pair]})
    for partition, ids in foreign.items():
        chunks += _chunked({foreign_key(release.number, partition): foreign_fields(ids, cipher)})
    return chunks


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
    added = (sum(not kind.is_known(state, identity) for identity, _ in kind.of_change(made.change)) for kind in KINDS)
    return Counts(*(count + more for count, more in zip(before, added, strict=True)))


def offset_fields(ends: Sequence[int]) -> list[bytes]:
    """Where reading of the external topic stopped, as fields and values of the key `external`."""
    return [part for number, end in enumerate(ends) for part in (str(number).encode(), str(end).encode())]


def _outbox_fields(sealed: SealedRelease) -> list[bytes]:
    fields = [part for number, record in enumerate(sealed.records) for part in (str(number).encode(), record)]
    for name, value in sealed.headers:
        fields += (_HEADER + name.encode(), value)
    return [*fields, _MANIFEST, sealed.manifest]


def read_outbox(number: int, found: Iterable[tuple[bytes, bytes]]) -> SealedRelease | None:
    """The inverse; None if the manifest is not there."""
    records: dict[int, bytes] = {}
    manifest, headers = b"", {}
    for field, value in found:
        if field == _MANIFEST:
            manifest = value
        elif field.startswith(_HEADER):
            headers[field.removeprefix(_HEADER).decode()] = value
        else:
            records[int(field)] = value
    if not manifest:
        return None
    ordered = [records[place] for place in sorted(records)]
    return SealedRelease(number=number, records=ordered, manifest=manifest, headers=sorted(headers.items()))


def _chunked(by_key: Fields) -> Iterator[Chunk]:
    for key, fields in by_key.items():
        for start in range(0, len(fields), 2 * CHUNK):
            yield Chunk(key, fields[start : start + 2 * CHUNK])
