"""Taking a snapshot: the records of one release, read from a Redis that goes on working.

1. look    the last release must be sent and applied, the next one not frozen; its manifest says where it ended
2. place   what was left out or rejected so far, of what that release has taken
3. records hash by hash into a file beside its place; until the next release is sealed nobody writes to them
4. look    again: had the next release been sealed meanwhile, its records could be among them, and all is thrown away;
           with shards the records must be those whose digests the manifest's record names
5. file    the last part, then the disk, then its name

Nothing is written to Redis, so no worker waits for a snapshot, and it can be stopped anywhere. A file under its name is
whole. What a worker does meanwhile belongs to the next release, which finds it on the topics.
"""

import asyncio
import json
import os
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import IO, Final, NamedTuple

from aiokafka.errors import KafkaError

from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed
from shoal.streams.errors import GuaranteeError, InputError, LostError, ServiceError
from shoal.streams.faults import crash_point
from shoal.streams.files.fresh_file import PRIVATE, fresh_file
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.files.release_folder import sync_folder
from shoal.streams.files.unwatched import Steps, Unwatched
from shoal.streams.kafka.entry import require
from shoal.streams.kafka.manifest import ManifestRecord, read_origin, read_states
from shoal.streams.kafka.refusal import unreachable
from shoal.streams.kafka.release_search import last_committed
from shoal.streams.kafka.rights import consumer_rights
from shoal.streams.log import configure_log
from shoal.streams.settings import Settings
from shoal.streams.snapshot.folder import make_folder, path_in, policy_folder
from shoal.streams.snapshot.snapshot_file import Head, Shards, SnapshotWriter, head_of, secrets_of
from shoal.streams.store.address import access_of
from shoal.streams.store.connection import RedisError, explain, without_secret
from shoal.streams.store.encryption import make_cipher
from shoal.streams.store.meta import TableMeta, check_identity, identity_of
from shoal.streams.store.records import KINDS, RecordKind, open_hash
from shoal.streams.store.shard_records import read_shard_records
from shoal.streams.store.shard_table import read_hashes
from shoal.streams.store.store import Store
from shoal.streams.store.whole_table import read_place, read_settled
from shoal.streams.thread import in_thread

_PATIENCE_S: Final = 60.0
_PAUSE_S: Final = 1.0


class UnsettledError(Exception):
    """A release is under way, or came meanwhile. A snapshot may be taken once it is applied."""


class Taken(NamedTuple):
    """A snapshot that was written."""

    path: Path
    release: int
    people: int  # in the table, shown or withheld or absent: whoever has a record
    published: int
    bytes: int
    seconds: float


async def take_snapshot(store: Store, settings: Settings, to: Path, watcher: Steps | None = None) -> Taken:
    """Write a snapshot of the last release to `to`, a file or a folder that exists.

    Raises UnsettledError, LostError (Redis knows nothing of the table, or not all of it), KafkaError, RedisError,
    OSError, and GuaranteeError if Redis and the releases topic contradict each other.
    """
    began = time.monotonic()
    meta = await _settled(store)
    manifest = await last_committed(settings.kafka_servers, store.table)
    if manifest is None or manifest.head.digest != meta.manifest:
        if (await _settled(store)).release != meta.release:
            raise UnsettledError
        raise GuaranteeError(
            f"release {meta.release} of table {store.table} in Redis is not the last one on the releases topic, so "
            "there is nothing to take a snapshot of: start the worker, which says what to do"
        )
    crash_point("snapshot.1")
    head = await _head(store, meta, manifest)
    crash_point("snapshot.2")
    path = path_in(to, store.table, meta.release)
    with fresh_file(path, PRIVATE) as file:
        keyed = Keyed(settings.key_bytes, store.table)
        writer = await in_thread(SnapshotWriter, file, secrets_of(settings)[0], store.table, head, keyed)
        await _copy_records(store, meta, head, writer, watcher or Unwatched())
        crash_point("snapshot.3")
        await _check_same(store, meta)
        if writer.counts != meta.counts:
            raise LostError
        _check_proved(store.table, writer.proofs, manifest)
        crash_point("snapshot.4")
        await in_thread(_finish, writer, file)
        crash_point("snapshot.5.open")
    sync_folder(path.parent)
    crash_point("snapshot.5")
    seconds = round(time.monotonic() - began, 3)
    published = int(json.loads(manifest.value)["people"])
    return Taken(path, meta.release, meta.counts.people, published, path.stat().st_size, seconds)


async def _settled(store: Store) -> TableMeta:
    meta = await read_settled(store)
    if meta is None:
        raise UnsettledError
    return meta


async def _head(store: Store, meta: TableMeta, manifest: ManifestRecord) -> Head:
    origin = read_origin(manifest.number, manifest.headers, meta.partitions)
    place = await read_place(store, origin.offsets, origin.external, origin.trigger + 1)
    shards = await _shards(store) if store.shards > 1 else None
    if (await _settled(store)).release != meta.release:  # frozen meanwhile, so its trigger may be part of the place
        raise UnsettledError
    return head_of(meta, place, manifest, shards)


async def _shards(store: Store) -> Shards:
    records = await read_shard_records(store)
    states = [state for shard in range(store.shards) if (state := records.state(shard)) is not None]
    if len(states) < store.shards:
        raise LostError
    return Shards(states, [records.counts(shard) for shard in range(store.shards)], records.cuts)


async def _copy_records(store: Store, meta: TableMeta, head: Head, writer: SnapshotWriter, watcher: Steps) -> None:
    """Step 3. A look now and then spares reading what would be thrown away."""
    watcher.begin(sum(meta.counts))
    for shard, kind in product(head.numbers, KINDS):
        await _check_same(store, meta)
        async for found in read_hashes(store, kind, meta.partitions, shard):
            await in_thread(_add, writer, kind, found, store, shard)
            watcher.advance(len(found))
            crash_point("snapshot.3.part")


async def _check_same(store: Store, meta: TableMeta) -> None:
    """Step 4. Raises UnsettledError if the next release was sealed: from then on it is written into the records."""
    published = await store.published()
    if published is None:
        raise LostError
    if published.release != meta.release:
        raise UnsettledError


def _check_proved(table: str, proofs: Sequence[str] | None, manifest: ManifestRecord) -> None:
    """Step 4, with shards. Raises GuaranteeError if the records are not those that the release was published from."""
    if proofs is not None and read_states(manifest.headers) != proofs:
        raise GuaranteeError(
            f"Redis does not have the state that release {manifest.number} of table {table} was published from, so a "
            "snapshot would not either: run `shoal rebuild`"
        )


def _add(writer: SnapshotWriter, kind: RecordKind, found: dict[bytes, bytes], store: Store, shard: int | None) -> None:
    writer.add(kind.name, open_hash(kind, found, store.cipher), shard)


def _finish(writer: SnapshotWriter, file: IO[bytes]) -> None:
    """The last part, and everything on the disk, which takes its time: not in the event loop."""
    writer.finish()
    os.fsync(file.fileno())


# -- the command ------------------------------------------------------------------------------------------------------


def run_snapshot(settings: Settings, to: Path | None, watcher: Steps, *, debug: bool = False) -> Taken:
    """Take a snapshot into a file or folder, by default the policy's. Raises StreamsError, OSError."""
    configure_log(settings.log_format, settings.log_level, debug=debug)
    policy = load_policy(settings.policy_path)
    if to is None and (to := policy_folder(settings, policy)) is not None:
        make_folder(to)
    if to is None:
        raise InputError("the policy does not say where snapshots go (snapshot: {to: …}): name a file or a folder")
    try:
        return asyncio.run(_take(settings, policy, to, watcher))
    except RedisError as error:
        raise explain(error, without_secret(settings.redis), policy.table) from error
    except KafkaError as error:
        raise unreachable(settings.kafka_servers) from error


async def _take(settings: Settings, policy: Policy, to: Path, watcher: Steps) -> Taken:
    cipher = make_cipher(settings.state_key_bytes)
    store = Store(settings.redis, policy.table, cipher, access_of(settings), shards=policy.shards)
    try:
        await store.connect(settings.connect_s)
        await require(settings, policy.table, consumer_rights(policy.table))
        meta = await store.meta()
        if meta is None or meta.release == 0:
            raise InputError(
                f"nothing of table {policy.table} is published yet, so there is nothing to take a snapshot of"
            )
        check_identity(
            meta, identity_of(settings, policy, store.cipher, meta.identity["events"]), meta.partitions, policy.table
        )
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return await take_snapshot(store, settings, to, watcher)
            except UnsettledError:
                if time.monotonic() > deadline:
                    raise ServiceError(
                        f"a release of table {policy.table} is under way: try again when it is published"
                    ) from None
            except LostError:
                raise GuaranteeError(
                    f"Redis does not have all of table {policy.table}, so a snapshot would not either: run "
                    "`shoal rebuild`"
                ) from None
            await asyncio.sleep(_PAUSE_S)
    finally:
        await store.close()
