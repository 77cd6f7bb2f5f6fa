"""What stands in a snapshot: the table's place at one release, and every record of its state.

| part          | holds                                                                                              |
|---------------|----------------------------------------------------------------------------------------------------|
| the cover     | for anybody: format, table, release; which key, by its fingerprint                                 |
| the first     | `Head` as a msgpack map, without its rejects                                                       |
| others        | [kind, [[identity, packed record], …]], in any order; rejects are a kind whose identity is a label |
|               | in a table with shards [kind, [[identity, packed record], …], shard]                               |
| the last      | the number of records of each kind                                                                 |

Identities and records are as `streams/store/records.py` packs them, decrypted: the file has an encryption of its own.
`records` is the number of their format. A file in an older one is converted as it is read (core/migrations.py). One of
an older engine is as good: it is the state after a release, whichever engine made the release.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from shoal.core.cells.shard import Shard
from shoal.core.cuts import Cuts
from shoal.core.migrations import FORMAT, Layout, convert
from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed, KeyedByHandle
from shoal.core.shards.table import Table
from shoal.core.state import ENGINE, Meta, State
from shoal.streams.errors import InputError
from shoal.streams.kafka.manifest import ManifestRecord
from shoal.streams.memory import without_cycle_search
from shoal.streams.settings import Settings, split_keys
from shoal.streams.snapshot.encrypted_file import EncryptedFile, EncryptedWriter
from shoal.streams.store.meta import Identity, TableMeta
from shoal.streams.store.records import KINDS, Counts, RecordKind, RejectNote, meta_of, pack, unpack
from shoal.streams.store.skipped import group_members, members_of
from shoal.streams.store.state_digest import StateDigest, proofs_of
from shoal.streams.store.whole_table import TablePlace

COPY: Final = "copy"
"""What the cover of a copy has (copy_file.py), and a snapshot's does not."""
_REJECTS: Final = "rejects"
_AT_ONCE: Final = 4_096  # records in a part

Packed = tuple[Any, bytes]
Found = dict[str, list[Packed]]
Keep = Callable[[State], State]


class Shards(NamedTuple):
    """The shards of a table, as their record in Redis has them; each shard's own record and the cuts are packed."""

    states: Sequence[bytes]
    counts: Sequence[Counts]
    cuts: bytes | None


@dataclass(frozen=True, kw_only=True)
class Head:
    """A table at one release, without its records."""

    identity: Identity
    """Of the policy, the engine and the secrets, as in Redis."""
    meta: Meta
    counts: Counts
    place: TablePlace
    manifest_at: int
    """The offset of the release's manifest on the releases topic."""
    needed: Mapping[str, int]
    """By label, the first record of each source that must still be there: to be read, or to become a dead letter."""
    records: int
    """The format of the records."""
    taken: float
    """When, in seconds."""
    shards: Shards | None
    """None if the table has one."""

    @property
    def layout(self) -> Layout:
        """What the records are in, and which engine the table had."""
        return Layout(self.records, self.identity["engine"])

    @property
    def numbers(self) -> Sequence[int | None]:
        """The shards, or None in the place of the only one."""
        return [None] if self.shards is None else range(len(self.shards.states))


class Loaded(NamedTuple):
    """All of a snapshot. `proofs` are those of its shards' states, if it has shards (streams/store/state_digest.py)."""

    head: Head
    whole: State | Table
    proofs: Sequence[str] | None


def head_of(meta: TableMeta, place: TablePlace, manifest: ManifestRecord, shards: Shards | None) -> Head:
    """The head of a snapshot that is taken now."""
    return Head(
        identity=meta.identity,
        meta=meta.sealed,
        counts=meta.counts,
        place=place,
        manifest_at=manifest.offset,
        needed=place.needed(),
        records=FORMAT,
        taken=time.time(),
        shards=shards,
    )


def secrets_of(settings: Settings) -> list[bytes]:
    """The secrets that snapshots may be written under; the first one writes.

    They are the keys of SHOAL_STATE_KEY. A snapshot from before there was one is under SHOAL_KEY.
    """
    state_key = settings.state_key_bytes
    ring = [] if state_key is None else [key.encode() for key in split_keys(state_key.decode())]
    return [*ring, settings.key_bytes]


class SnapshotWriter:
    """Writes one snapshot: the head at once, records as they come, and at the end how many there were."""

    def __init__(self, file: IO[bytes], secret: bytes, table: str, head: Head, keyed: Keyed) -> None:
        self._file = EncryptedWriter(file, secret, {"table": table, "release": head.meta.release})
        self._head, self._digests = head, {shard: StateDigest(keyed) for shard in head.numbers}
        self._keyed = keyed
        self._file.add(pack(_head_fields(head)))
        self._counts = dict.fromkeys((kind.name for kind in KINDS), 0)
        for label, notes in head.place.rejects.items():
            self._parts(_REJECTS, [(label, pack(note)) for note in notes])

    def add(self, kind: str, records: Iterable[Packed], shard: int | None = None) -> None:
        """`shard` in a table with shards."""
        found = list(records)
        self._parts(kind, found, shard)
        self._counts[kind] += len(found)
        if shard is not None:
            self._digests[shard].add_packed(kind, found)

    @property
    def proofs(self) -> list[str] | None:
        """Those of the records so far; None in a table with one shard."""
        return _proofs(self._head, self._keyed, self._digests.values())

    @property
    def counts(self) -> Counts:
        """How many records there are so far."""
        return Counts(**self._counts)

    def finish(self) -> None:
        """Write the last part."""
        self._file.finish(pack(tuple(self.counts)))

    def _parts(self, kind: str, records: Sequence[Packed], shard: int | None = None) -> None:
        where = () if shard is None else (shard,)
        for start in range(0, len(records), _AT_ONCE):
            self._file.add(pack((kind, records[start : start + _AT_ONCE], *where)))


class SnapshotFile:
    """A snapshot to read: `release` by its cover, then `head`, then `load`, each of which reads more of it."""

    def __init__(self, path: Path, table: str) -> None:
        """Raises InputError if it is no snapshot of this table, or in another format."""
        self.path = path
        self._file = EncryptedFile(path)
        cover = self._file.cover
        if COPY in cover:
            raise InputError(
                f"{path} is a copy of an older table and not a snapshot: `shoal upgrade --back` brings it back"
            )
        if cover.get("table") != table:
            raise InputError(f"{path} is a snapshot of table {cover.get('table')}, and not of table {table}")
        if type(cover.get("release")) is not int:
            raise self._file.damaged()
        self.release: int = cover["release"]

    def head(self, secrets: Sequence[bytes]) -> Head:
        """Raises InputError if it is damaged, cut short, under another key, or of an unknown format."""
        return self._read_head(next(self._file.parts(secrets)))

    def load(self, secrets: Sequence[bytes], policy: Policy, key: bytes, keep: Keep = lambda state: state) -> Loaded:
        """Everything, once all of it is known to be there. Raises InputError as `head` does.

        `keep` is given the state of each shard, and what it returns stands in its place: with files, one is in memory.
        Takes seconds for a million people: call it in a thread.
        """
        with without_cycle_search():
            parts = self._file.parts(secrets)
            head = self._read_head(next(parts))
            found: dict[int | None, Found] = {shard: {kind.name: [] for kind in KINDS} for shard in head.numbers}
            notes: list[Packed] = []
            counted: tuple[int, ...] = ()
            for part in parts:
                content = unpack(part)
                if content[0] == _REJECTS:
                    notes += content[1]
                elif isinstance(content[0], str):
                    found[content[2] if len(content) > 2 else None][content[0]] += content[1]
                else:
                    counted = content
            sizes = [Counts(*(len(mine[kind.name]) for kind in KINDS)) for mine in found.values()]
            if not counted == head.counts == Counts(*map(sum, zip(*sizes, strict=True))):
                raise InputError(f"{self.path} does not have as many records as it says: use another snapshot")
            rejects: dict[str, list[RejectNote]] = {}
            for label, note in notes:
                rejects.setdefault(label, []).append(RejectNote(*unpack(note)))
            keyed = KeyedByHandle(key, policy.table)
            proofs = _proofs(head, keyed, (_digest(keyed, mine) for mine in found.values()))
            whole = _whole(head, found, policy, keyed, keep)
            return Loaded(replace(head, place=replace(head.place, rejects=rejects)), whole, proofs)

    def _read_head(self, part: bytes) -> Head:
        head = _head(unpack(part))
        if not head.layout.is_known:
            raise InputError(
                f"{self.path} has records in format {head.records} of engine {head.layout.engine}, and this version of "
                f"Shoal has format {FORMAT} of engine {ENGINE}: use the version that wrote it"
            )
        return head


def _digest(keyed: Keyed, found: Found) -> StateDigest:
    """The digest of a shard's records, as the file has them."""
    digest = StateDigest(keyed)
    for kind, records in found.items():
        digest.add_packed(kind, records)
    return digest


def _proofs(head: Head, keyed: Keyed, digests: Iterable[StateDigest]) -> list[str] | None:
    shards = head.shards
    if shards is None:
        return None
    return proofs_of(keyed, head.meta.release, [one.value for one in digests], shards.states, shards.cuts)


def _whole(
    head: Head, found: dict[int | None, Found], policy: Policy, keyed: KeyedByHandle, keep: Keep
) -> State | Table:
    """The state that the records describe. Lets go of each shard's when they are read."""

    def load(number: int | None, meta: Meta, shard: Shard | None = None) -> State:
        mine = found.pop(number)
        records = {kind.name: _read(kind, mine.pop(kind.name), head.records) for kind in KINDS}
        return State.load(policy, keyed, meta, KeyedByHandle, shard, **records)

    if head.shards is None:
        return load(None, head.meta)
    cuts = None if head.shards.cuts is None else Cuts.read(policy, unpack(head.shards.cuts))
    places = [Shard(number, None) if cuts is None else cuts.shard(number) for number in range(policy.shards)]
    own = map(meta_of, head.shards.states)
    states = [keep(load(shard.number, meta, shard)) for shard, meta in zip(places, own, strict=True)]
    return Table(policy, states, cuts, head.meta)


def _read(kind: RecordKind, records: Iterable[Packed], number: int) -> Iterator[tuple[Any, Any]]:
    return ((identity, kind.read(convert(number, kind.name, unpack(packed)))) for identity, packed in records)


def _head_fields(head: Head) -> dict[str, Any]:
    place, shards = head.place, head.shards
    return {
        "records": head.records,
        "taken": head.taken,
        "identity": dict(head.identity),
        "meta": tuple(head.meta),
        "counts": tuple(head.counts),
        "manifest_at": head.manifest_at,
        "needed": dict(head.needed),
        "offsets": list(place.offsets),
        "external": list(place.external),
        "next_trigger": place.next_trigger,
        "fired": place.fired,
        "at": place.at,
        "skipped": members_of(place.skipped),
        **({} if shards is None else {"shards": (shards.states, [tuple(one) for one in shards.counts], shards.cuts)}),
    }


def _head(fields: Mapping[str, Any]) -> Head:
    place = TablePlace(
        offsets=fields["offsets"],
        external=fields["external"],
        next_trigger=fields["next_trigger"],
        fired=fields["fired"],
        at=fields["at"],
        skipped=group_members(member.encode() for member in fields["skipped"]),
        rejects={},
    )
    return Head(
        identity=fields["identity"],
        meta=Meta(*fields["meta"]),
        counts=Counts(*fields["counts"]),
        place=place,
        manifest_at=fields["manifest_at"],
        needed=fields["needed"],
        records=fields["records"],
        taken=fields["taken"],
        shards=_shards(*fields["shards"]) if "shards" in fields else None,
    )


def _shards(states: Sequence[bytes], counts: Sequence[Sequence[int]], cuts: bytes | None) -> Shards:
    return Shards(states, [Counts(*one) for one in counts], cuts)
