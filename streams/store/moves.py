"""What a desk reads and writes: the records of the people of its bucket, and what it found for each shard.

A person's record is in the hash of their home partition, in the shard that they live in. A window does not say which
shard that is, so a desk looks in every shard's hash. If a person's home was not known when the window began, it looks
in the hashes of every partition, too. docs/scale.md has the cost.

What a desk found is written in elements of a few thousand people, encrypted as a window's elements are.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from shoal.core.events.window import OFFSETS, Delta
from shoal.core.shards.desk import RecordedHistories, Resident
from shoal.core.shards.moves import Deltas, ShardWindow, joined
from shoal.core.signatures.bonds import Bond
from shoal.core.signatures.signature import SignatureRecord
from shoal.core.state import READERS
from shoal.streams.store.encryption import Cipher
from shoal.streams.store.keys import (
    BONDS,
    SIGNATURES,
    STRAYS,
    bucket_of,
    hash_of,
    moves_key,
    people_keys,
    shard_key,
)
from shoal.streams.store.records import BOND, PERSON, pack, person_of, unpack
from shoal.streams.store.shard_records import ShardRecords
from shoal.streams.store.store import Store
from shoal.streams.store.window_log import read_log
from shoal.streams.thread import in_thread

_PEOPLE_AN_ELEMENT: Final = 5_000
_FIELDS_AT_ONCE: Final = 1_000
MOVES: Final = b"moves"
_SIGNATURE: Final = 1  # the place of the signature's number in an entry
Misrouted = Sequence[tuple[int, int]]
K = TypeVar("K")


class MissingError(Exception):
    """Not all that a desk wrote is there. `bucket` is the desk's."""

    def __init__(self, bucket: int) -> None:
        super().__init__(bucket)
        self.bucket = bucket


# -- what a desk reads ------------------------------------------------------------------------------------------------


async def read_bucket(store: Store, release: int, partitions: int, bucket: int) -> dict[int, dict[str, Delta]]:
    """The windows of a release, of one bucket."""
    numbers = range(partitions)
    windows = await asyncio.gather(*(read_log(store, release, number, bucket) for number in numbers))
    return dict(zip(numbers, windows, strict=True))


async def read_known(
    store: Store, records: ShardRecords, deltas: Deltas, partitions: int, bucket: int, *, has_cuts: bool
) -> dict[str, Resident]:
    """Those whom a desk folds and who have a record: the people of its window or, in the release that makes the cuts,
    everybody of its bucket. `records` are those of the release before, `has_cuts` is of this one.
    """
    peopled = [shard for shard in range(store.shards) if records.counts(shard).people]
    if not peopled:
        return {}
    if has_cuts and records.cuts is None:
        return await read_everybody(store, 0, partitions, bucket)
    return await read_residents(store, deltas, partitions, peopled)


async def read_residents(store: Store, deltas: Deltas, partitions: int, shards: Sequence[int]) -> dict[str, Resident]:
    """Those whom these deltas are about and who have a record; `shards` are those that have anybody.

    Costs one field for each shard, and for people whose home was not known one for each shard and partition.
    """
    everywhere = ",".join(map(str, range(partitions)))
    wanted: dict[tuple[str, int], set[bytes]] = defaultdict(set)
    for partition, here in deltas.items():
        for handle, delta in here.items():
            field = handle.encode()
            homes = str(partition) if delta[OFFSETS] is None else everywhere
            wanted[homes, hash_of(field)].add(field)
    asked = ",".join(map(str, shards))
    found: dict[str, Resident] = {}
    for some in _portions({one: sorted(fields) for one, fields in sorted(wanted.items())}):
        args: list[str | int | bytes] = []
        for (homes, number), fields in some:
            args += (homes, number, len(fields), *fields)
        answer = await store.run("find", asked, *args)
        found |= await in_thread(_found, store.cipher, answer)
    return found


def _found(cipher: Cipher, answer: Sequence[bytes]) -> dict[str, Resident]:
    triples = zip(answer[::3], answer[1::3], answer[2::3], strict=True)
    return {
        field.decode(): Resident(int(shard), person_of(cipher.decrypt(PERSON, field, value)))
        for shard, field, value in triples
    }


async def read_everybody(store: Store, shard: int, partitions: int, bucket: int | None = None) -> dict[str, Resident]:
    """Everybody in a shard, or those of one bucket of it: for the release that makes the cuts."""
    found: dict[str, Resident] = {}
    keys = [shard_key(shard, key) for number in range(partitions) for key in people_keys(number)]
    async for records in store.hashes(keys):
        here = (
            (field, value)
            for field, value in records.items()
            if bucket is None or bucket_of(field, store.shards) == bucket
        )
        found |= await in_thread(_residents, store.cipher, shard, list(here))
    return found


async def read_histories(store: Store, residents: Mapping[str, Resident], *, has_bonds: bool) -> RecordedHistories:
    """What the numbers in these people's records stand for, and their cliques."""
    numbers: list[set[int]] = [set() for _ in range(store.shards)]
    for resident in residents.values():
        numbers[resident.shard].update(entry[_SIGNATURE] for entry in resident.person.entries if entry[_SIGNATURE] >= 0)
    lived_in = {resident.shard for resident in residents.values()}
    signatures: list[dict[int, SignatureRecord]] = []
    bonds: list[dict[int, Bond]] = []
    for shard, wanted in enumerate(numbers):
        fields = [str(number).encode() for number in sorted(wanted)]
        answers = [pair for some in _portions({SIGNATURES: fields}) for pair in await _ask(store, shard, some)]
        signatures.append({int(field): READERS["signatures"](unpack(value)) for field, value in answers})
        bonds.append(await _read_bonds(store, shard) if has_bonds and shard in lived_in else {})
    return RecordedHistories(signatures, bonds)


async def _read_bonds(store: Store, shard: int) -> dict[int, Bond]:
    found: dict[int, Bond] = {}
    async for chunk in store.scan(shard_key(shard, BONDS)):
        for field, value in chunk:
            found[int(field)] = READERS["bonds"](unpack(store.cipher.decrypt(BOND, field, value)))
    return found


def _portions(wanted: Mapping[K, Sequence[bytes]]) -> Iterator[list[tuple[K, Sequence[bytes]]]]:
    """What is asked and of whom, some thousand fields at a time."""
    some: list[tuple[K, Sequence[bytes]]] = []
    size = 0
    for key, fields in wanted.items():
        for start in range(0, len(fields), _FIELDS_AT_ONCE):
            part = fields[start : start + _FIELDS_AT_ONCE]
            some.append((key, part))
            size += len(part)
            if size >= _FIELDS_AT_ONCE:
                yield some
                some, size = [], 0
    if some:
        yield some


async def _ask(store: Store, shard: int, wanted: Iterable[tuple[str, Sequence[bytes]]]) -> list[tuple[bytes, bytes]]:
    """Fields and values, those that are there."""
    pipeline, asked = store.redis.pipeline(transaction=False), list(wanted)
    for key, fields in asked:
        pipeline.hmget(store.key(shard_key(shard, key)), list(fields))
    answers = await pipeline.execute()
    return [
        (field, value)
        for (_, fields), values in zip(asked, answers, strict=True)
        for field, value in zip(fields, values, strict=True)
        if value is not None
    ]


def _residents(cipher: Cipher, shard: int, found: Iterable[tuple[bytes, bytes]]) -> dict[str, Resident]:
    return {field.decode(): Resident(shard, person_of(cipher.decrypt(PERSON, field, value))) for field, value in found}


# -- what a desk writes -----------------------------------------------------------------------------------------------


def pack_moves(cipher: Cipher, release: int, bucket: int, shard: int, window: ShardWindow | None) -> list[bytes]:
    """What a desk found for one shard, as elements of `moves:n:b:s`."""
    if window is None:
        return []
    bound = _bound_to(release, bucket, shard)
    return [cipher.encrypt(MOVES, bound, pack(part.pack())) for part in parts_of(window)]


def pack_strays(
    cipher: Cipher, release: int, bucket: int, misrouted: Misrouted, foreign: Mapping[int, Sequence[str]]
) -> list[bytes]:
    """Offsets of misrouted events, and by partition the handles of those who are at home elsewhere."""
    if not misrouted and not foreign:
        return []
    whole = (tuple(misrouted), tuple((number, tuple(people)) for number, people in sorted(foreign.items())))
    return [cipher.encrypt(MOVES, _bound_to(release, bucket, STRAYS), pack(whole))]


async def read_moves(store: Store, release: int, shard: int, gathered: Mapping[int, tuple[int, ...]]) -> ShardWindow:
    """What all desks found for a shard. `gathered` has how many elements each wrote. Raises MissingError."""
    buckets = range(store.shards)
    found = await asyncio.gather(
        *(_elements(store, release, bucket, shard, gathered[bucket][shard]) for bucket in buckets)
    )

    def join() -> ShardWindow:
        cipher, windows = store.cipher, []
        for bucket, elements in zip(buckets, found, strict=True):
            windows += _unpacked(cipher, _bound_to(release, bucket, shard), elements)
        return joined(windows, ())

    return await in_thread(join)


async def read_strays(
    store: Store, release: int, bucket: int, gathered: Mapping[int, tuple[int, ...]]
) -> tuple[Misrouted, Mapping[int, Sequence[str]]]:
    """The inverse of `pack_strays`. Raises MissingError."""
    for element in await _elements(store, release, bucket, STRAYS, gathered[bucket][-1]):
        misrouted, foreign = unpack(store.cipher.decrypt(MOVES, _bound_to(release, bucket, STRAYS), element))
        return misrouted, dict(foreign)
    return (), {}


async def _elements(store: Store, release: int, bucket: int, target: int | str, count: int) -> list[bytes]:
    found: list[bytes] = await store.redis.lrange(store.key(moves_key(release, bucket, target)), 0, -1)
    if len(found) != count:
        raise MissingError(bucket)
    return found


def _unpacked(cipher: Cipher, bound: bytes, elements: Sequence[bytes]) -> list[ShardWindow]:
    return [ShardWindow.unpack(unpack(cipher.decrypt(MOVES, bound, element))) for element in elements]


def parts_of(window: ShardWindow) -> Iterator[ShardWindow]:
    """A window in pieces, each of some thousand people."""
    everybody = sum(map(len, window.deltas.values()))
    if everybody + len(window.departures) + len(window.lost) + len(window.arrivals) <= _PEOPLE_AN_ELEMENT:
        yield window
        return
    for partition, here in sorted(window.deltas.items()):
        for deltas in _pieces(here):
            yield ShardWindow(deltas={partition: deltas})
    for start in range(0, len(window.departures), _PEOPLE_AN_ELEMENT):
        yield ShardWindow(departures=window.departures[start : start + _PEOPLE_AN_ELEMENT])
    lost = sorted(window.lost)
    for start in range(0, len(lost), _PEOPLE_AN_ELEMENT):
        yield ShardWindow(lost=frozenset(lost[start : start + _PEOPLE_AN_ELEMENT]))
    for arrivals in _pieces(window.arrivals):
        yield ShardWindow(arrivals=arrivals)


def _pieces(whole: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    items = iter(whole.items())
    return iter(lambda: dict(islice(items, _PEOPLE_AN_ELEMENT)), {})


def _bound_to(release: int, bucket: int, target: int | str) -> bytes:
    """What stands for a field in the encryption."""
    return moves_key(release, bucket, target).encode()
