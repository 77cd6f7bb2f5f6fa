"""`shoal inspect`: what there is of a table, where, and what a rebuild or an upgrade would do. It changes nothing.

Everything here is a number, a digest, a fingerprint, a path or a time. Nothing is about people except how many there
are.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from shoal import __version__
from shoal.core.migrations import FORMAT, Layout
from shoal.core.policy.policy import Policy
from shoal.core.published.manifest import FORMAT as RELEASE_FORMAT
from shoal.core.state import ENGINE
from shoal.streams.errors import InputError
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.kafka.entry import require
from shoal.streams.kafka.manifest import ManifestRecord, read_origin
from shoal.streams.kafka.partition_reader import open_reader
from shoal.streams.kafka.refusal import unreachable
from shoal.streams.kafka.release_search import last_committed, manifest_from
from shoal.streams.kafka.rights import inspector_rights
from shoal.streams.kafka.topics import Topics, partition_counts
from shoal.streams.settings import Settings
from shoal.streams.snapshot.encrypted_file import FORMAT as SNAPSHOT_FORMAT
from shoal.streams.snapshot.folder import listed, policy_folder
from shoal.streams.snapshot.snapshot_file import Head, SnapshotFile
from shoal.streams.store.address import access_of
from shoal.streams.store.connection import RedisError, explain, without_secret
from shoal.streams.store.course import read_course, word_of
from shoal.streams.store.encryption import make_cipher
from shoal.streams.store.keys import label_of
from shoal.streams.store.meta import Identity, identity_of
from shoal.streams.store.records import Counts
from shoal.streams.store.shard_records import read_shard_records
from shoal.streams.store.store import Store
from shoal.streams.worker.beginning import check_usable
from shoal.streams.worker.standing import why_uncut

Found = dict[str, Any]
_SOURCES = ("events", "external", "triggers")


def run_inspect(settings: Settings) -> Found:
    """Everything that `shoal inspect --json` prints. Raises StreamsError."""
    policy = load_policy(settings.policy_path)
    try:
        return asyncio.run(_inspect(settings, policy))
    except RedisError as error:
        raise explain(error, without_secret(settings.redis), policy.table) from error
    except KafkaError as error:
        raise unreachable(settings.kafka_servers) from error


async def _inspect(settings: Settings, policy: Policy) -> Found:
    cipher = make_cipher(settings.state_key_bytes)
    store = Store(settings.redis, policy.table, cipher, access_of(settings), shards=policy.shards)
    identity = identity_of(settings, policy, store.cipher, "")
    try:
        await store.connect(settings.connect_s)
        await require(settings, policy.table, inspector_rights(policy.table))
        topics = await _topics(settings, policy)
        last = await last_committed(settings.kafka_servers, policy.table) if topics["releases"]["ends"] else None
        snapshots, newest = await _snapshots(settings, policy, store, len(topics["events"]["ends"]))
        redis = _redis(await store.raw_meta())
        shards = await _shards(store) if redis is not None and policy.shards > 1 else None
        begin = 0 if newest is None else newest.manifest_at + 1
        following = await manifest_from(settings.kafka_servers, policy.table, begin) if last is not None else None
        oldest = ENGINE if following is None else str(following.head.told.get("engine"))
    finally:
        await store.close()
    needed = _needed(topics, None if newest is None else newest.needed)
    return {
        "table": policy.table,
        "shoal": {
            "version": __version__,
            "engine": ENGINE,
            "formats": {"redis": FORMAT, "releases": RELEASE_FORMAT, "snapshots": SNAPSHOT_FORMAT},
            "policy": identity["policy"],
            "key": identity["key"],
            "state_keys": _fingerprints(identity["seal"]),
        },
        "redis": redis,
        **({} if shards is None else {"shards": shards}),
        "published": _published(policy, last),
        "topics": topics,
        "snapshots": snapshots,
        "needed": needed,
        "rebuild": _rebuild(redis, last, topics, newest, needed, identity, oldest),
        "upgrade": _upgrade(redis),
    }


def _redis(meta: Mapping[str, str]) -> Found | None:
    if not meta:
        return None
    numbers = {name: int(meta[name]) for name in ("format", "partitions", "release", "sent", "applied") if name in meta}
    texts = {name: meta.get(name) for name in ("engine", "policy", "manifest", "key")}
    counts = dict(zip(Counts._fields, map(int, meta.get("counts", "").split()), strict=False))
    return {**numbers, **texts, "state_keys": _fingerprints(meta.get("seal", "")), "records": counts}


def _fingerprints(seal: str) -> list[str]:
    """Of the keys of SHOAL_STATE_KEY; none if there are none."""
    return [one for one in seal.split(",") if one]


def _published(policy: Policy, last: ManifestRecord | None) -> Found | None:
    """The last release as the world sees it."""
    if last is None:
        return None
    manifest = last.head.told
    names = ("release", "format", "engine", "policy", "published_at", "people", "withheld", "unsampled")
    note = why_uncut(policy, manifest)
    told = {} if note is None else {"note": note}
    return {
        **{name: manifest.get(name) for name in names},
        "people": manifest.get("people", manifest.get("rows")),
        **told,
    }


async def _shards(store: Store) -> list[Found]:
    """Where each shard is in the release under way, and how many records it had after the last."""
    records, course = await read_shard_records(store), await read_course(store)
    return [
        {"shard": shard, "state": word_of(course, shard), "records": records.counts(shard)._asdict()}
        for shard in range(store.shards)
    ]


async def _topics(settings: Settings, policy: Policy) -> Found:
    """By topic, where each partition begins and ends now."""
    counts = await partition_counts(settings.kafka_servers, settings.connect_s)
    names = Topics(policy.table).with_shards(policy.shards)
    found: Found = {}
    async with open_reader(settings.kafka_servers) as consumer:
        for name in names:
            parts = [TopicPartition(name, number) for number in range(counts.get(name, 0))]
            begins, ends = await consumer.beginning_offsets(parts), await consumer.end_offsets(parts)
            found[name.rpartition(".")[2]] = {
                "begins": [begins[part] for part in parts],
                "ends": [ends[part] for part in parts],
            }
    return found


async def _snapshots(
    settings: Settings, policy: Policy, store: Store, partitions: int
) -> tuple[list[Found], Head | None]:
    """The snapshots of the policy's folder, the newest first, and the newest that a rebuild could begin with, by all
    that can be told without reading its records.
    """
    folder, found, newest = policy_folder(settings, policy), list[Found](), None
    for one in [] if folder is None else listed(folder, policy.table):
        described: Found = {"path": str(one.path), "release": one.release, "bytes": one.path.stat().st_size}
        try:
            file = SnapshotFile(one.path, policy.table)
            head = (await check_usable(file, settings, policy, store.cipher, partitions)).head
        except InputError as error:
            described["unusable"] = str(error)
        else:
            described |= {"taken": head.taken, "people": head.counts.people}
            if head.shards is not None:
                described["shards"] = [one.people for one in head.shards.counts]
            newest = newest or head
        found.append(described)
    return found, newest


def _needed(topics: Found, needed: Mapping[str, int] | None) -> Found:
    """By topic and partition, the first record that a rebuild needs: everything before it may be deleted."""
    return {
        name: [(needed or {}).get(label_of(name, number), 0) for number in range(len(topics[name]["ends"]))]
        for name in _SOURCES
    }


def _rebuild(
    redis: Found | None,
    last: ManifestRecord | None,
    topics: Found,
    newest: Head | None,
    needed: Found,
    identity: Identity,
    oldest: str,
) -> str:
    """What `shoal rebuild` would do, in a sentence. `oldest` is the engine of the first release that it would make."""
    if last is None:
        return "nothing is published, so there is nothing to rebuild"
    origin = read_origin(last.number, last.headers, len(needed["events"]))
    first = 0 if newest is None else newest.meta.release
    if origin.policy != identity["policy"]:
        return "is refused: the last release was made by another policy"
    if first < last.number and oldest != ENGINE:
        return (
            f"is refused: release {first + 1} was made by engine {oldest}, so a rebuild needs a snapshot of a later "
            "one, which `shoal upgrade` and `shoal snapshot` take"
        )
    gone = [name for name in _SOURCES if _is_gone(topics[name]["begins"], needed[name])]
    if gone:
        return f"is refused: records of {', '.join(gone)} are gone that it needs, and no newer snapshot can be used"
    begin = [0] * len(origin.offsets) if newest is None else newest.place.offsets
    events = sum(origin.offsets) - sum(begin)
    where = "the first event" if newest is None else f"the snapshot of release {first}"
    work = f"would begin at {where} and make {last.number - first:,} releases again, of {events:,} records"
    is_current = redis is not None and redis["release"] >= last.number
    return f"has nothing to do now; if Redis were lost it {work}" if is_current else work


def _is_gone(begins: Sequence[int], needed: Sequence[int]) -> bool:
    return any(begin > need for begin, need in zip(begins, needed, strict=True))


def _upgrade(redis: Found | None) -> str:
    """What this version makes of the state in Redis, in a sentence."""
    if redis is None:
        return "Redis has nothing of the table"
    if (redis.get("format"), redis["engine"]) == (FORMAT, ENGINE):
        return "nothing to do: Redis has the format and the engine of this version"
    layout = Layout(redis.get("format", 0), str(redis["engine"]))
    said = f"format {layout.number} of engine {layout.engine}"
    if not layout.is_known:
        return f"is refused: Redis has {said}, which this version does not know"
    if layout.is_current:
        return f"`shoal upgrade` would take a snapshot, and go on from {said} with engine {ENGINE}"
    converted = f"convert {said} to format {FORMAT} of engine {ENGINE}"
    return f"`shoal upgrade` would keep a copy, {converted}, and take a snapshot"
