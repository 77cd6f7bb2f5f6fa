"""`shoal shard dump`: writes one shard and its input for the release under way to a file, to be planned elsewhere.

It owns nothing and changes nothing. What it reads does not change while the release waits: the records of the release
before, the moves of all desks, the window on the events topic. Last it checks whether the release went on meanwhile.
"""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from shoal.core.cells.shard import Shard
from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed
from shoal.core.shards.cuts import Cuts
from shoal.core.shards.moves import ShardWindow
from shoal.core.state import State
from shoal.streams.errors import GuaranteeError, InputError, LostError
from shoal.streams.files.fresh_file import PRIVATE, fresh_file
from shoal.streams.files.policy_record import pack_policy, unpack_policy
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.intake.formats import EventReader
from shoal.streams.kafka.manifest import Origin, read_origin
from shoal.streams.kafka.refusal import unreachable
from shoal.streams.kafka.release_search import last_committed
from shoal.streams.kafka.topics import Topics
from shoal.streams.settings import Settings
from shoal.streams.snapshot.encrypted_file import EncryptedWriter
from shoal.streams.snapshot.snapshot_file import secrets_of
from shoal.streams.store.address import access_of
from shoal.streams.store.connection import RedisError, explain, without_secret
from shoal.streams.store.coordination import read_shard_records
from shoal.streams.store.course import Course, read_course
from shoal.streams.store.encryption import make_cipher
from shoal.streams.store.meta import check_identity, identity_of
from shoal.streams.store.moves import MissingError, parts_of, read_moves
from shoal.streams.store.records import KINDS, pack, unpack
from shoal.streams.store.shard_table import load_shard
from shoal.streams.store.skipped import read_skipped
from shoal.streams.store.store import Store
from shoal.streams.worker.changing import read_request
from shoal.streams.worker.culprit import records_between
from shoal.streams.worker.dumped_shard import DUMP, MOVES, PLACES, DumpHead, Place
from shoal.streams.worker.external import read_external
from shoal.streams.worker.vector import PackedVector, origin_of

_RECORDS_A_PART: Final = 5_000


class Dumped(NamedTuple):
    """What was written."""

    table: str
    release: int
    shard: int
    people: int


def run_dump(settings: Settings, shard: int, out: Path) -> Dumped:
    """Dump a shard. Raises StreamsError, OSError."""
    policy = load_policy(settings.policy_path)
    if policy.shards == 1:
        raise InputError(f"table {policy.table} has no shards: `/ready` names what stops its release")
    if shard >= policy.shards:
        raise InputError(f"table {policy.table} has the shards 0 to {policy.shards - 1}")
    try:
        return asyncio.run(_dump(settings, policy, shard, out))
    except RedisError as error:
        raise explain(error, without_secret(settings.redis), policy.table) from error
    except KafkaError as error:
        raise unreachable(settings.kafka_servers) from error
    except LostError:
        raise GuaranteeError(f"Redis does not have all of table {policy.table}: run `shoal rebuild`") from None


async def _dump(settings: Settings, policy: Policy, number: int, out: Path) -> Dumped:
    cipher = make_cipher(settings.state_key_bytes)
    store = Store(settings.redis, policy.table, cipher, access_of(settings), shards=policy.shards)
    try:
        await store.connect(settings.connect_s)
        meta = await store.meta()
        if meta is None:
            raise InputError(f"Redis holds nothing of table {policy.table}")
        now = identity_of(settings, policy, store.cipher, meta.identity["events"])
        check_identity(meta, now, meta.partitions, policy.table)
        course = await _frozen(store)
        with fresh_file(out, PRIVATE) as file:
            about = {"table": policy.table, DUMP: [course.number, number]}
            writer, count, people = EncryptedWriter(file, secrets_of(settings)[0], about), 1, 0
            reading = _Reading(settings, policy, store, meta.partitions, course, number)
            for part in await reading.parts():
                writer.add(pack(part))
                count += 1
            people = reading.people
            writer.finish(pack(count))
            if await read_course(store) != course:
                raise InputError(f"release {course.number} of table {policy.table} went on meanwhile: try again")
        return Dumped(policy.table, course.number, number, people)
    finally:
        await store.close()


async def _frozen(store: Store) -> Course:
    """The release under way. Raises InputError if its desks are not done, or it needs no planning any more."""
    course = await read_course(store)
    if course.vector is None or course.is_sent:
        raise InputError(f"no release of table {store.table} is being planned, so there is nothing to dump")
    if len(course.gathered) < store.shards:
        raise InputError(
            f"release {course.number} of table {store.table} is not gathered yet: shards can be dumped once it is"
        )
    return course


class _Reading:
    """Everything that a shard is planned from."""

    def __init__(
        self, settings: Settings, policy: Policy, store: Store, partitions: int, course: Course, number: int
    ) -> None:
        self._settings, self._policy, self._store = settings, policy, store
        self._partitions, self._course, self._number = partitions, course, number
        self._servers, self._topics = settings.kafka_servers, Topics(policy.table)
        self.people = 0  # of the shard

    async def parts(self) -> Iterator[Any]:
        """The parts of the file, in their order."""
        course, number = self._course, self._number
        assert course.vector is not None
        assert course.origin is not None
        origin = origin_of(PackedVector(course.vector, course.origin), course.number, self._partitions)
        policies, before = await self._policies(origin)
        records = await read_shard_records(self._store)
        stored = None if records.cuts is None else Cuts.read(before, unpack(records.cuts))
        shard = Shard(number, None) if stored is None else stored.shard(number)
        key, begin = self._settings.key_bytes, await self._store.external_offsets()
        state = await load_shard(self._store, before, key, shard, self._partitions, records)
        self.people = len(state.people.here())
        read = await read_external(
            self._servers, self._topics, before, begin, origin.external, await read_skipped(self._store)
        )
        try:
            window = await read_moves(self._store, course.number, number, course.gathered)
        except MissingError:
            raise LostError from None
        places = await self._places(origin, window)
        head = DumpHead(
            course.number,
            number,
            policies,
            course.cuts or None,
            records.state(number),
            stored is not None,
            tuple(read.places),
        )
        return self._parts(head, state, window._replace(externals=read.groups), places)

    def _parts(
        self, head: DumpHead, state: State, window: ShardWindow, places: dict[str, list[Place]]
    ) -> Iterator[Any]:
        yield tuple(head)
        for kind in KINDS:
            yield from _portions(kind.name, kind.of_state(state))
        pieces = [*parts_of(window), ShardWindow(externals=window.externals)]
        for piece in pieces:
            yield MOVES, [piece.pack()]
        yield from _portions(PLACES, iter(places.items()))

    async def _policies(self, origin: Origin) -> tuple[tuple[str, str], Policy]:
        """As the file has them, and the one in whose leaves everything is stored."""
        if self._course.changed is None:
            return (pack_policy(self._settings.policy_path), ""), self._policy
        asked = await read_request(self._servers, self._topics, EventReader(self._policy), origin.trigger)
        return (asked.previous, asked.policy), unpack_policy(asked.previous) or self._policy

    async def _places(self, origin: Origin, window: ShardWindow) -> dict[str, list[Place]]:
        """Where the events of this window about these people are. Reads all of the window."""
        deltas = (handle for here in window.deltas.values() for handle in here)
        wanted = {*deltas, *window.departures, *window.lost, *window.arrivals}
        last = await last_committed(self._servers, self._policy.table)
        begins: Sequence[int] = [0] * self._partitions
        if last is not None:
            begins = read_origin(last.number, last.headers, self._partitions).offsets
        handle_of = Keyed(self._settings.key_bytes, self._policy.table).handle
        reader, found = EventReader(self._policy), dict[str, list[Place]]()
        for number, (begin, end) in enumerate(zip(begins, origin.offsets, strict=True)):
            partition = TopicPartition(self._topics.events, number)
            async for record in records_between(self._servers, partition, begin, end):
                event = reader.read(record.value, record.headers)
                person = event.get("id") if isinstance(event, dict) else None
                if isinstance(person, str) and (handle := handle_of(person)) in wanted:
                    found.setdefault(handle, []).append((number, record.offset))
        return found


def _portions(name: str, records: Any) -> Iterator[tuple[str, list[Any]]]:
    """Records of a kind, some thousand at a time."""
    waiting = iter(records)
    while some := list(islice(waiting, _RECORDS_A_PART)):
        yield name, some
