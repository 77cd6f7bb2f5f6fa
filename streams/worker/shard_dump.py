"""`shoal shard dump`: writes one shard and its input for the release under way to a file, to be planned elsewhere.

If the desk of the bucket with this number is not done, its input is written instead (`desk_dump.py`). The command owns
nothing and changes nothing. What it reads does not change while the release waits: the records of the release before,
the windows, the moves of all desks, the window on the events topic. Last it checks whether the release went on
meanwhile.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiokafka.errors import KafkaError

from shoal.core.cells.shard import Shard
from shoal.core.policy.policy import Policy
from shoal.core.shards.cuts import Cuts
from shoal.core.shards.moves import ShardWindow
from shoal.core.state import State
from shoal.streams.errors import GuaranteeError, InputError, LostError
from shoal.streams.files.fresh_file import PRIVATE, fresh_file
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.kafka.refusal import unreachable
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
from shoal.streams.worker.desk_dump import DeskReading
from shoal.streams.worker.dump_source import DumpSource, portions
from shoal.streams.worker.dumped_desk import DESK
from shoal.streams.worker.dumped_shard import DUMP, MOVES, PLACES, DumpHead, Place
from shoal.streams.worker.external import read_external

_RECORDS_A_PART: Final = 5_000


class Dumped(NamedTuple):
    """What was written."""

    table: str
    release: int
    shard: int
    people: int
    is_desk: bool
    """Whether it is the desk of the bucket with the shard's number, which could not gather."""


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
        course = await _frozen(store, number)
        is_desk = number not in course.gathered
        source = DumpSource(settings, policy, store, meta.partitions, course, number)
        reading = DeskReading(source) if is_desk else ShardReading(source)
        with fresh_file(out, PRIVATE) as file:
            about = {"table": policy.table, DESK if is_desk else DUMP: [course.number, number]}
            writer, count = EncryptedWriter(file, secrets_of(settings)[0], about), 1
            for part in await reading.parts():
                writer.add(pack(part))
                count += 1
            writer.finish(pack(count))
            if await read_course(store) != course:
                raise InputError(f"release {course.number} of table {policy.table} went on meanwhile: try again")
        return Dumped(policy.table, course.number, number, reading.people, is_desk)
    finally:
        await store.close()


async def _frozen(store: Store, number: int) -> Course:
    """The release under way. Raises InputError if it waits for another desk, or needs no planning any more."""
    course = await read_course(store)
    if course.vector is None or course.is_sent:
        raise InputError(f"no release of table {store.table} is being planned, so there is nothing to dump")
    waits_for = [bucket for bucket in range(store.shards) if bucket not in course.gathered]
    if course.cuts is None:
        waits_for = [0]  # whose owner makes the cuts, for every desk
    if waits_for and number not in waits_for:
        failed = [bucket for bucket in waits_for if bucket in course.failed] or waits_for
        named = " or ".join(f"--shard {bucket}" for bucket in failed)
        raise InputError(
            f"release {course.number} of table {store.table} is not gathered yet, so shard {number} cannot be dumped: "
            f"dump the desk that it waits for ({named})"
        )
    return course


class ShardReading:
    """Everything that a shard is planned from."""

    def __init__(self, source: DumpSource) -> None:
        self._source = source
        self.people = 0  # of the shard

    async def parts(self) -> Iterator[Any]:
        """The parts of the file, in their order."""
        source = self._source
        course, number, store, origin = source.course, source.number, source.store, source.origin
        policies, before = await source.policies()
        records = await read_shard_records(store)
        stored = None if records.cuts is None else Cuts.read(before, unpack(records.cuts))
        shard = Shard(number, None) if stored is None else stored.shard(number)
        key, begin = source.settings.key_bytes, await store.external_offsets()
        state = await load_shard(store, before, key, shard, source.partitions, records)
        self.people = len(state.people.here())
        read = await read_external(
            source.servers, source.topics, before, begin, origin.external, await read_skipped(store)
        )
        try:
            window = await read_moves(store, course.number, number, course.gathered)
        except MissingError:
            raise LostError from None
        deltas = (handle for here in window.deltas.values() for handle in here)
        places = await source.places({*deltas, *window.departures, *window.lost, *window.arrivals})
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
            yield from portions(kind.name, kind.of_state(state))
        pieces = [*parts_of(window), ShardWindow(externals=window.externals)]
        for piece in pieces:
            yield MOVES, [piece.pack()]
        yield from portions(PLACES, iter(places.items()))
