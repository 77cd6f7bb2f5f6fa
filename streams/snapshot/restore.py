"""`shoal restore`: brings a snapshot into a Redis that holds nothing of its table.

1. read   the whole file, and compare what it was made under with what is set now; with shards, the digests of its
          records must be those that its release names on the releases topic
2. look   Redis must not know the table
3. write  the records, then the place and `meta` in one transaction (streams/store/whole_table.py)

If a restore stops before the end, Redis counts as knowing nothing, and the next restore or rebuild clears what is
there.
"""

import asyncio
from pathlib import Path

from aiokafka.errors import KafkaError

from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.faults import crash_point
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.kafka.entry import require
from shoal.streams.kafka.manifest import ManifestRecord, read_states
from shoal.streams.kafka.refusal import unreachable
from shoal.streams.kafka.release_search import manifest_at
from shoal.streams.kafka.rights import consumer_rights
from shoal.streams.log import configure_log
from shoal.streams.settings import Settings
from shoal.streams.snapshot.snapshot_file import Head, Loaded, SnapshotFile, secrets_of
from shoal.streams.store.address import access_of
from shoal.streams.store.connection import RedisError, explain, without_secret
from shoal.streams.store.encryption import make_cipher
from shoal.streams.store.meta import Identity, identity_of
from shoal.streams.store.store import Store
from shoal.streams.store.whole_table import write_table
from shoal.streams.thread import in_thread

_CHANGED = {
    "policy": "under another policy: restore it under the file as it was then (SHOAL_POLICY, with its hierarchy "
    "files), and `shoal rebuild --snapshot` goes on from there to the policy of today",
    "key": "under another SHOAL_KEY: set it to what it was then",
}


def run_restore(settings: Settings, path: Path, *, debug: bool = False) -> Head:
    """Bring a snapshot into Redis. Raises StreamsError; until the last moment Redis is untouched or knows nothing."""
    configure_log(settings.log_format, settings.log_level, debug=debug)
    policy = load_policy(settings.policy_path)
    try:
        return asyncio.run(_restore(settings, policy, path))
    except RedisError as error:
        raise explain(error, without_secret(settings.redis), policy.table) from error
    except KafkaError as error:
        raise unreachable(settings.kafka_servers) from error


async def _restore(settings: Settings, policy: Policy, path: Path) -> Head:
    cipher = make_cipher(settings.state_key_bytes)
    store = Store(settings.redis, policy.table, cipher, access_of(settings), shards=policy.shards)
    file, secrets = SnapshotFile(path, policy.table), secrets_of(settings)
    made = file.head(secrets)
    # The events topic is the one that the table was begun with; a worker compares it with the one that is there.
    identity = identity_of(settings, policy, cipher, made.identity["events"])
    check_made(path, made, identity)
    manifest = None
    if policy.shards > 1:
        await require(settings, policy.table, consumer_rights(policy.table))
        manifest = await find_manifest(settings.kafka_servers, policy.table, path, made)
    loaded = await in_thread(file.load, secrets, policy, settings.key_bytes)
    check_proved(path, loaded, manifest)
    crash_point("restore.1")
    try:
        await store.connect(settings.connect_s)
        if await store.published() is not None:
            raise InputError(
                f"Redis already has a state of table {policy.table}, and a snapshot is restored only where there is "
                "none: if that state is wrong, `shoal rebuild` replaces it"
            )
        crash_point("restore.2")
        await write_table(store, identity, loaded.whole, loaded.head.place)
    finally:
        await store.close()
    return loaded.head


async def find_manifest(servers: list[str], table: str, path: Path, head: Head) -> ManifestRecord:
    """The manifest of a snapshot's release. Raises InputError if it is not on the releases topic, KafkaError."""
    manifest = await manifest_at(servers, table, head.manifest_at)
    if manifest is None or manifest.head.digest != head.meta.manifest:
        raise InputError(
            f"{path} is of release {head.meta.release}, and the releases topic of table {table} does not have that "
            "release: use a snapshot of what was published there"
        )
    return manifest


def check_proved(path: Path, loaded: Loaded, manifest: ManifestRecord | None) -> None:
    """With shards: raises InputError if the records are not those that the release of a snapshot was published from."""
    told = None if manifest is None else read_states(manifest.headers)
    if loaded.proofs is not None and told != loaded.proofs:
        raise InputError(
            f"{path} does not have the records that release {loaded.head.meta.release} was published from, by the "
            "digests that the releases topic names: use another snapshot"
        )


def check_made(path: Path, head: Head, identity: Identity) -> None:
    """Raises InputError if a snapshot was made under another policy or secret than `identity` says."""
    for name, reason in _CHANGED.items():
        if head.identity[name] != identity[name]:
            raise InputError(f"{path} was made {reason}")
