"""Where a rebuild begins: at the newest snapshot that can be used, or, without one, at the first event."""

from pathlib import Path
from typing import NamedTuple

from shoal.core.policy.meaning import meaning_of
from shoal.core.policy.policy import Policy
from shoal.core.shards.table import Table
from shoal.core.state import State
from shoal.streams.errors import InputError
from shoal.streams.kafka.manifest import ManifestRecord
from shoal.streams.kafka.release_reader import Place
from shoal.streams.kafka.topics import Topics
from shoal.streams.log import get_log
from shoal.streams.settings import Settings
from shoal.streams.snapshot.folder import listed, policy_folder
from shoal.streams.snapshot.restore import check_made, check_proved, find_manifest
from shoal.streams.snapshot.snapshot_file import Head, Keep, SnapshotFile, secrets_of
from shoal.streams.store.encryption import Cipher
from shoal.streams.store.meta import identity_of
from shoal.streams.store.whole_table import TablePlace
from shoal.streams.thread import in_thread
from shoal.streams.worker.changing import read_policies


class Beginning(NamedTuple):
    """The state and the place of a table at a release, and where the releases topic goes on after that release."""

    whole: State | Table
    place: TablePlace
    after: Place
    policy: Policy
    """Under which that release was made; another one may have taken over since."""


class Usable(NamedTuple):
    """A snapshot that a rebuild can begin with, as far as its head tells, the policy that it was made under, and the
    manifest of its release.
    """

    head: Head
    policy: Policy
    manifest: ManifestRecord


async def find_beginning(
    settings: Settings, policy: Policy, cipher: Cipher, given: Path | None, partitions: int, keep: Keep
) -> Beginning | None:
    """The snapshot to begin with: the file `given`, or the newest usable one of a folder, by default the policy's.

    `keep` is what `SnapshotFile.load` does with the state of each shard. None if a folder has none that can be used.
    Raises InputError if the file that was given cannot be, KafkaError.
    """
    folder = given or policy_folder(settings, policy)
    if folder is None:
        return None
    if not folder.is_dir() and given is not None:
        return await _begin_with(given, settings, policy, cipher, partitions, keep)
    log = get_log(table=policy.table)
    for candidate in listed(folder, policy.table):
        try:
            return await _begin_with(candidate.path, settings, policy, cipher, partitions, keep)
        except InputError as error:
            log.warning("snapshot.unusable", release=candidate.release, reason=str(error))
    return None


async def _begin_with(
    path: Path, settings: Settings, policy: Policy, cipher: Cipher, partitions: int, keep: Keep
) -> Beginning:
    """Raises InputError if a snapshot cannot be used here."""
    file = SnapshotFile(path, policy.table)
    _, made, manifest = await check_usable(file, settings, policy, cipher, partitions)
    loaded = await in_thread(file.load, secrets_of(settings), made, settings.key_bytes, keep)
    check_proved(path, loaded, manifest)
    head = loaded.head
    get_log(table=policy.table).info("snapshot.loaded", release=head.meta.release, people=head.counts.people)
    assert head.meta.manifest is not None, "a snapshot is of something published"
    after = Place(head.meta.release, head.meta.manifest, head.manifest_at + 1)
    return Beginning(loaded.whole, head.place, after, made)


async def check_usable(
    file: SnapshotFile, settings: Settings, policy: Policy, cipher: Cipher, partitions: int
) -> Usable:
    """What a snapshot says, before its records are read, if the releases topic has its release.

    It may be from before a change of policy, which stands on the triggers topic behind it.

    Raises InputError if it cannot be used here, KafkaError.
    """
    head = file.head(secrets_of(settings))
    made = policy
    if head.identity["policy"] != meaning_of(policy):
        servers, topics = settings.kafka_servers, Topics(policy.table)
        later = await read_policies(servers, topics, policy, head.place.next_trigger)
        made = later.get(head.identity["policy"], policy)
    check_made(file.path, head, identity_of(settings, made, cipher, head.identity["events"]))
    manifest = await find_manifest(settings.kafka_servers, policy.table, file.path, head)
    if len(head.place.offsets) != partitions:
        raise InputError(
            f"{file.path} was made with {len(head.place.offsets)} partitions of the events topic, which has "
            f"{partitions}"
        )
    return Usable(head, made, manifest)
