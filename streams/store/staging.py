"""What a planned release writes to Redis, in chunks small enough for one script each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from shoal.core.draft import Plan
from shoal.core.events.window import OFFSETS, Delta
from shoal.core.parts import PartPlan
from shoal.core.state import State, WholeChange
from shoal.streams.store.encryption import Cipher
from shoal.streams.store.keys import EXTERNAL, GONE, foreign_key, people_key, rejects_key, shard_key
from shoal.streams.store.records import CHUNK, KINDS, Chunk, Counts, RejectNote, encode, pack
from shoal.streams.store.state_digest import StateDigest
from shoal.streams.store.window_log import foreign_fields

_HEADER = b"header:"
_MANIFEST = b"manifest"

Headers = Sequence[tuple[str, bytes]]


@dataclass(frozen=True, kw_only=True)
class SealedRelease:
    """The manifest of a release and the headers of its record, as they lie in Redis from the seal until it is sent.

    The other records are not stored: they are in memory, or planned again.
    """

    number: int
    manifest: bytes
    headers: Headers


def chunks_of(
    made: Plan | PartPlan,
    state: State,
    cipher: Cipher,
    release: int,
    *,
    misrouted: Sequence[tuple[int, int]],
    foreign: Mapping[int, Sequence[str]],
    external_ends: Sequence[int] = (),
    rejects: Mapping[str, Sequence[RejectNote]] | None = None,
    digest: StateDigest | None = None,
) -> Iterator[Chunk]:
    """Everything that a plan changes in a shard, and what its desk and, for one of the shards, the external topic adds.

    `digest` is that of the state before; when the last chunk is read it is that of the state after. A table with one
    shard has none.

    Packed as it is read: that takes seconds for a million people, so in a thread. `state` is the one that the plan
    started from.
    """
    shard = None if state.shard is None else state.shard.number
    if digest is not None:
        digest.leave(made.change, state)
    for kind in KINDS:
        note = None if digest is None else digest.adder(kind.name)
        for chunk in encode(kind, kind.of_change(made.change), cipher, note):
            yield Chunk(shard_key(shard, chunk.key), chunk.fields)
    gone: dict[str, list[bytes]] = {}
    rows = state.people.rows_of(made.change.departed)
    for handle, row in zip(made.change.departed, rows, strict=True):
        assert row is not None, "nobody leaves a shard that they are not in"
        field = handle.encode()
        gone.setdefault(people_key(int(state.people.home[row]), field), []).extend((field, b""))
    for key, fields in gone.items():
        yield from _chunked(GONE + shard_key(shard, key), fields)
    yield from _chunked(EXTERNAL, offset_fields(external_ends))
    waiting: dict[str, list[RejectNote]] = {}
    for partition, offset in misrouted:
        waiting.setdefault(str(partition), []).append(RejectNote(offset, "wrong-partition"))
    for label, notes in {**waiting, **(rejects or {})}.items():
        numbered = ((str(number).encode(), pack(note)) for number, note in enumerate(notes))
        yield from _chunked(rejects_key(label), [part for pair in numbered for part in pair])
    for partition, people in foreign.items():
        yield from _chunked(foreign_key(release, partition), foreign_fields(people))


def foreign_ids(
    made: Plan | PartPlan, state: State, windows: Mapping[int, Mapping[str, Delta]]
) -> dict[int, list[str]]:
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


def counts_after(made: Plan | PartPlan, state: State, before: Counts) -> Counts:
    """How many records a shard has once a plan is applied. `state` is the one that the plan started from."""
    if isinstance(made.change, WholeChange):
        return Counts(*(len(getattr(made.change, kind.name)) for kind in KINDS))
    added = Counts(*(kind.count_new(made.change, state) for kind in KINDS))
    counts = Counts(*(count + more for count, more in zip(before, added, strict=True)))
    return counts._replace(people=counts.people - len(made.change.departed))


def offset_fields(ends: Sequence[int]) -> list[bytes]:
    """Where reading of the external topic stopped, as fields and values of the key `external`."""
    return [part for number, end in enumerate(ends) for part in (str(number).encode(), str(end).encode())]


def outbox_fields(sealed: SealedRelease) -> list[bytes]:
    """The fields of `outbox`."""
    headers = ((_HEADER + name.encode(), value) for name, value in sealed.headers)
    return [*chain.from_iterable(headers), _MANIFEST, sealed.manifest]


def read_outbox(number: int, found: Iterable[tuple[bytes, bytes]]) -> SealedRelease | None:
    """Read what `outbox_fields` writes; None if the manifest is not there."""
    fields = dict(found)
    manifest = fields.pop(_MANIFEST, None)
    if manifest is None:
        return None
    headers = sorted((name.removeprefix(_HEADER).decode(), value) for name, value in fields.items())
    return SealedRelease(number=number, manifest=manifest, headers=headers)


def _chunked(key: str, fields: list[bytes]) -> Iterator[Chunk]:
    for start in range(0, len(fields), 2 * CHUNK):
        yield Chunk(key, fields[start : start + 2 * CHUNK])
