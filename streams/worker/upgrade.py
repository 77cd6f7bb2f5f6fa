"""`shoal upgrade`: a table that an older version has left in Redis goes on with this one.

A table in an older format (core/migrations.py):

1. look    no worker runs, the last release is published and applied, the policy and the secrets are the table's
2. copy    everything that Redis holds, as it is, into a file: with it there is a way back (`--back`)
3. fence   every ownership is taken away (streams/store/replacing.py)
4. write   the state of the last release, converted, beside the table
5. replace one script: what was written takes the table's place
6. snapshot of the last release. A rebuild begins with it, since the releases before it are another engine's

A window that was open is read again from the topics, as after a rebuild. A table in this format that another engine has
made needs no conversion: 1, the snapshot, and then 3, which also notes the engine. Killed anywhere, it is run again:
until step 5 the table is the older version's, after it this one's. A table with shards is not converted yet. Step 3
deletes what its shards have reported of a release that is not sealed. A sealed release must be finished first.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from aiokafka.errors import KafkaError

from shoal.core.migrations import FORMAT, Layout
from shoal.core.policy.meaning import meaning_of
from shoal.core.policy.policy import Policy
from shoal.core.state import ENGINE
from shoal.streams.errors import GuaranteeError, InputError, LostError
from shoal.streams.faults import crash_point
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.kafka.companions import working_hosts
from shoal.streams.kafka.entry import require
from shoal.streams.kafka.manifest import ManifestRecord, read_origin
from shoal.streams.kafka.refusal import unreachable
from shoal.streams.kafka.release_search import last_committed
from shoal.streams.kafka.rights import worker_rights
from shoal.streams.kafka.sealed import last_announced
from shoal.streams.settings import Settings
from shoal.streams.snapshot.copy_file import copy_path, keep_copy, put_back
from shoal.streams.snapshot.folder import make_folder, policy_folder, snapshot_path
from shoal.streams.snapshot.snapshot_file import secrets_of
from shoal.streams.snapshot.take import UnsettledError, take_snapshot
from shoal.streams.store.address import access_of
from shoal.streams.store.connection import RedisError, explain, without_secret
from shoal.streams.store.encryption import fingerprint, make_cipher
from shoal.streams.store.meta import TableMeta, check_keys, identity_of, layout_of, other_version, parse_meta
from shoal.streams.store.replacing import fence, replace
from shoal.streams.store.shard_records import read_shard_records
from shoal.streams.store.shard_table import load_shard
from shoal.streams.store.store import Store
from shoal.streams.store.whole_table import TablePlace, read_place, write_table
from shoal.streams.worker.publish import check_story

_LATE_S = 5.0  # how much longer than a session a worker that was killed may be seen
T = TypeVar("T")


class Upgrade(NamedTuple):
    """What is to be done about a table, or was."""

    table: str
    layout: Layout
    """What the table is, or was, in."""
    release: int
    copy: Path | None
    """Where Redis is kept as it is, if it is to be converted."""
    snapshot: Path | None
    """Where a snapshot of the last release goes, if another engine made that and there is none."""

    @property
    def is_current(self) -> bool:
        """Whether the table itself needs nothing."""
        return self.layout == (FORMAT, ENGINE)


class _Older(NamedTuple):
    """A table as the first step found it."""

    upgrade: Upgrade
    policy: Policy
    meta: TableMeta
    last: ManifestRecord | None


def look_upgrade(settings: Settings, to: Path | None) -> Upgrade:
    """What `run_upgrade` would do; changes nothing. Raises StreamsError if it would be refused."""

    async def look(store: Store) -> Upgrade:
        return (await _look(settings, store, to)).upgrade

    return _with_store(settings, look)


def run_upgrade(settings: Settings, to: Path | None, *, without_snapshot: bool = False) -> Upgrade:
    """All steps; returns what was done. `to` is a folder for the copy and the snapshot, by default the policy's.

    Raises StreamsError, OSError.
    """

    async def upgrade(store: Store) -> Upgrade:
        older = await _look(settings, store, to)  # 1
        crash_point("upgrade.1")
        if older.upgrade.snapshot is not None:
            make_folder(older.upgrade.snapshot.parent)
        if older.upgrade.copy is not None:
            await _convert(settings, store, older)
            await _snapshot(settings, store, older.upgrade, without_snapshot=without_snapshot)
        else:
            await _snapshot(settings, store, older.upgrade, without_snapshot=without_snapshot)
            if older.upgrade.layout.engine != ENGINE:
                await fence(store, older.upgrade.release, ENGINE)
        crash_point("upgrade.6")
        return older.upgrade

    return _with_store(settings, upgrade)


def run_back(settings: Settings, path: Path) -> Upgrade:
    """Put a copy that an upgrade has kept in the place of what Redis holds; returns what the table is in again.

    Raises StreamsError.
    """

    async def back(store: Store) -> Upgrade:
        await _refuse_workers(settings, store.table)
        if (found := await store.published()) is not None:
            await fence(store, found.release)
        layout = await put_back(store, path, secrets_of(settings))
        release = parse_meta(await store.meta_fields()).release
        return Upgrade(store.table, layout, release, copy=path, snapshot=None)

    return _with_store(settings, back)


def _with_store(settings: Settings, action: Callable[[Store], Awaitable[T]]) -> T:
    """Run an action on the table's store. Raises StreamsError."""
    table = load_policy(settings.policy_path).table

    async def run() -> T:
        store = Store(settings.redis, table, make_cipher(settings.state_key_bytes), access_of(settings))
        try:
            await store.connect(settings.connect_s)
            store.shards = int((await store.meta_fields()).get(b"shards", 1))
            await require(settings, table, worker_rights(table, has_clock=False, shards=store.shards))
            return await action(store)
        finally:
            await store.close()

    try:
        return asyncio.run(run())
    except RedisError as error:
        raise explain(error, without_secret(settings.redis), table) from error
    except KafkaError as error:
        raise unreachable(settings.kafka_servers) from error
    except LostError:
        raise GuaranteeError(
            f"Redis does not have all of table {table}: run `shoal rebuild` with the version that wrote it"
        ) from None


async def _look(settings: Settings, store: Store, to: Path | None) -> _Older:
    """Step 1: what there is, and what is to be done about it."""
    older = await _read(settings, store)
    upgrade, policy, meta, last = older
    to = to or policy_folder(settings, policy)
    needs_snapshot = last is not None and not (upgrade.is_current and _engine(last) == ENGINE)
    if upgrade.is_current and not (needs_snapshot and to):
        return older
    if to is None:
        raise InputError("name a folder with --to: the table is kept there before it is changed")
    if not upgrade.is_current:
        await _refuse_workers(settings, store.table)
    if not upgrade.is_current:
        await _refuse_under_way(settings, store, meta, last)
    if not upgrade.layout.is_current:
        upgrade = upgrade._replace(copy=copy_path(to, store.table, meta.release, upgrade.layout))
    path = snapshot_path(to, store.table, meta.release)
    if needs_snapshot and not path.exists():
        upgrade = upgrade._replace(snapshot=path)
    return older._replace(upgrade=upgrade)


async def _refuse_under_way(settings: Settings, store: Store, meta: TableMeta, last: ManifestRecord | None) -> None:
    """Raises InputError if a release is under way that may have to be planned again: another engine would not make the
    same.
    """
    seen = 0 if last is None else last.number
    announced = await last_announced(settings.kafka_servers, store.table) if store.shards > 1 else None
    number = max(meta.release, 0 if announced is None else announced.number)
    if not meta.release == meta.sent == meta.applied or number > seen:
        raise InputError(
            f"release {number} of table {store.table} is under way: start the workers of the version that began it, "
            "let them finish it, and stop them"
        )


async def _read(settings: Settings, store: Store) -> _Older:
    """The table, if it is one that can go on, and everything that it was begun under is as it was."""
    table, fields = store.table, await store.meta_fields()
    if not fields:
        raise InputError(f"Redis holds nothing of table {table}, so there is nothing to upgrade")
    layout, meta = layout_of(fields), parse_meta(fields)
    if not layout.is_known or (store.shards > 1 and not layout.is_current):
        raise other_version(layout, table)
    policy = load_policy(settings.policy_path)
    if meta.identity["policy"] != meaning_of(policy):
        raise InputError(f"table {table} was begun under another policy: give the one that it has")
    if meta.identity["key"] != fingerprint(settings.key_bytes, table):
        raise InputError(f"table {table} was begun under another SHOAL_KEY: set it back")
    check_keys(meta.identity["seal"], ",".join(store.cipher.fingerprints), table)
    last = await last_committed(settings.kafka_servers, table)
    check_story(table, meta, last)
    return _Older(Upgrade(table, layout, meta.release, copy=None, snapshot=None), policy, meta, last)


def _engine(last: ManifestRecord) -> str:
    return str(last.head.told.get("engine"))


async def _refuse_workers(settings: Settings, table: str) -> None:
    if hosts := await working_hosts(settings, table, settings.session_s + _LATE_S):
        raise InputError(f"workers of table {table} are running (on {', '.join(hosts)}): stop them, and run this again")


async def _convert(settings: Settings, store: Store, older: _Older) -> None:
    """Steps 2 to 5."""
    upgrade, policy, meta, last = older
    assert upgrade.copy is not None
    make_folder(upgrade.copy.parent)
    await keep_copy(store, secrets_of(settings)[0], upgrade.copy, upgrade.layout)  # 2
    crash_point("upgrade.2")
    await fence(store, upgrade.release)  # 3
    crash_point("upgrade.3")
    records = await read_shard_records(store)
    state = await load_shard(store, policy, settings.key_bytes, None, meta.partitions, records, upgrade.layout.number)
    state.meta = meta.sealed  # the shard's own record does not know the manifest
    identity = identity_of(settings, policy, store.cipher, meta.identity["events"])
    await write_table(store.beside(), identity, state, await _place(store, meta, last))  # 4
    crash_point("upgrade.4")
    await replace(store)  # 5
    crash_point("upgrade.5")


async def _place(store: Store, meta: TableMeta, last: ManifestRecord | None) -> TablePlace:
    """Where the last release ended; before the first one, the beginning of everything."""
    if last is None:
        return TablePlace(offsets=[0] * meta.partitions, external=(), next_trigger=0, fired=meta.created, rejects={})
    origin = read_origin(last.number, last.headers, meta.partitions)
    return await read_place(store, origin.offsets, origin.external, origin.trigger + 1)


async def _snapshot(settings: Settings, store: Store, upgrade: Upgrade, *, without_snapshot: bool) -> None:
    """Step 6."""
    if upgrade.snapshot is None or without_snapshot:
        return
    try:
        await take_snapshot(store, settings, upgrade.snapshot)
    except UnsettledError:
        raise InputError(
            f"a release of table {store.table} is under way, so no snapshot can be taken: start the workers of the "
            "version that began it and let them finish it, or go on with --without-snapshot"
        ) from None
