"""`shoal rebuild`: make the state in Redis again from the topics, and prove that it is the one that was published from.

It begins at the newest snapshot that can be used, whose release stands on the releases topic, or at the first event.
Every manifest since says, in its headers, where the window of its release ended in each partition of the events topic.
So the same events are read in the same windows, decoded and judged as ingest does it, and planned by the same engine.
The manifest that comes out must be the published one, byte for byte, or nothing is written. A manifest has the sha256
of the release's content and of the manifest before, so equal manifests mean that everything is equal.

A record that was rejected up to the last release and is not on the dead-letter topic is written as a reject, for the
worker to send. Events after the last release are left to the worker, which finds its own dead letters on the topic and
does not send them again.
"""

import asyncio
import json
import os
import time
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from shoal.core.events.event import ChangeRequest, Reason, Reject, ReleaseRequest, SkipRequest, moment_of
from shoal.core.plan import Window
from shoal.core.policy.meaning import meaning_of
from shoal.core.policy.policy import Policy
from shoal.core.state import ENGINE
from shoal.streams.deadletter.box import sent_offsets, target_of
from shoal.streams.errors import GuaranteeError, InputError, ServiceError
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.files.unwatched import Steps
from shoal.streams.intake.formats import EventReader
from shoal.streams.intake.taker import make_taker
from shoal.streams.kafka.entry import events_id, require
from shoal.streams.kafka.manifest import Origin, read_origin, read_states
from shoal.streams.kafka.partition_reader import open_reader, read_to_end
from shoal.streams.kafka.record import Record
from shoal.streams.kafka.record_limit import set_limit
from shoal.streams.kafka.refusal import is_refusal
from shoal.streams.kafka.release_reader import CommittedRelease, open_releases
from shoal.streams.kafka.rights import refused, worker_rights
from shoal.streams.kafka.topics import Topics, partition_counts
from shoal.streams.kafka.windows import WindowedEvents, open_events
from shoal.streams.log import configure_log, get_log
from shoal.streams.settings import Settings
from shoal.streams.store.address import access_of
from shoal.streams.store.connection import RedisError, explain, is_passing, without_secret
from shoal.streams.store.encryption import fingerprint, make_cipher
from shoal.streams.store.keys import TRIGGERS, external_label
from shoal.streams.store.meta import FormatError, Identity, identity_of
from shoal.streams.store.records import RejectNote, note_of
from shoal.streams.store.shard_table import is_whole
from shoal.streams.store.store import Store
from shoal.streams.store.whole_table import TablePlace
from shoal.streams.thread import in_thread
from shoal.streams.worker.beginning import Beginning, find_beginning
from shoal.streams.worker.changing import read_policies
from shoal.streams.worker.external import read_external, source_of
from shoal.streams.worker.publish import Publisher
from shoal.streams.worker.remaking import Remade, Shelf, Whole, begin_anew
from shoal.streams.worker.skipping import record_of
from shoal.streams.worker.trigger import Trigger, judge_request, read_trigger

_START = TablePlace(offsets=(), external=(), next_trigger=0, fired=0.0, rejects={})


class Rebuilt(NamedTuple):
    """What Redis has now: the last release, how many were made again, None if it had all, and since which snapshot."""

    table: str
    release: int
    made: int | None = None
    snapshot: int | None = None


def run_rebuild(settings: Settings, snapshot: Path | None, watcher: Steps, *, debug: bool = False) -> Rebuilt:
    """Rebuild. `snapshot` is the one to begin with, or a folder of them.

    Raises StreamsError, with its exit code, if the state cannot be proved or a service is missing.
    """
    configure_log(settings.log_format, settings.log_level, debug=debug)
    set_limit(settings.max_record)
    policy = load_policy(settings.policy_path)
    if policy.shards > 1 and settings.state_key is not None and "TMPDIR" not in os.environ:
        raise InputError(
            "people are encrypted at rest, and a rebuild keeps shards in temporary files, which are not: set TMPDIR to "
            "a folder on an encrypted disk or in memory"
        )
    try:
        # Where the rebuild is interrupted, its thread may still write there.
        with TemporaryDirectory(prefix="shoal-rebuild-", ignore_cleanup_errors=True) as folder:
            return asyncio.run(_rebuild(settings, policy, snapshot, watcher, Path(folder)))
    except KafkaError as error:
        if is_refusal(error):  # it was granted when the rebuild began
            raise refused(settings.kafka_servers, [f"what was taken away from it ({type(error).__name__})"]) from error
        raise ServiceError("Kafka went away during the rebuild; Redis has no state now, so run it again") from error
    except RedisError as error:
        if not is_passing(error):
            raise explain(error, without_secret(settings.redis), policy.table) from error
        raise ServiceError("Redis went away during the rebuild; it has no state now, so run it again") from error


async def _rebuild(settings: Settings, policy: Policy, snapshot: Path | None, watcher: Steps, folder: Path) -> Rebuilt:
    cipher, shards = make_cipher(settings.state_key_bytes), policy.shards
    store = Store(settings.redis, policy.table, cipher, access_of(settings), shards=shards)
    log = get_log(table=policy.table)
    servers, topics = settings.kafka_servers, Topics(policy.table)
    await store.connect(settings.connect_s)
    await require(settings, policy.table, worker_rights(policy.table, has_clock=False, shards=shards))
    counts = await partition_counts(servers, settings.connect_s)
    if topics.events not in counts or topics.releases not in counts:
        raise InputError(f"there are no topics of table {policy.table} to rebuild from")
    partitions = counts[topics.events]
    identity = identity_of(settings, policy, store.cipher, await events_id(settings, policy.table))
    publisher = Publisher(servers, policy.table, policy.shards)
    try:
        # From here on no worker publishes: a release under way ends before the topic is read.
        await publisher.start()
        last = await publisher.last()
        if last is None:
            raise InputError(f"nothing of table {policy.table} is published yet: start the worker, it begins by itself")
        if await _is_current(store, policy, identity, last.number, last.value):
            return Rebuilt(policy.table, last.number)
        shelf = Shelf(settings.key_bytes, folder)
        begin = await find_beginning(settings, policy, store.cipher, snapshot, partitions, shelf.keep)
        policies = await read_policies(servers, topics, policy, 0 if begin is None else begin.place.next_trigger)
        first_policy = policy if begin is None else begin.policy
        begun = begin_anew(policy, settings.key_bytes, folder) if begin is None else shelf.go_on_with(begin.whole)
        replayed = _Replayed(first_policy, settings, partitions, begun, begin, policies, folder)
        first = replayed.whole.meta.release + 1
        after = None if begin is None else begin.after
        watcher.begin(last.number - first + 1)
        async with (
            open_events(servers, topics.events, replayed.offsets) as events,
            open_releases(servers, policy.table, settings.connect_s, after) as reader,
        ):
            async for release in reader.releases():
                began = time.monotonic()
                await replayed.follow(release, events)
                seconds, people = round(time.monotonic() - began, 3), replayed.whole.people
                log.info("rebuild.release", release=release.number, seconds=seconds, people=people)
                watcher.advance(1)
        await replayed.read_triggers(servers, topics)
        unsent = await _unsent(replayed, servers, topics, has_letters=topics.dead_letter in counts)
        identity = {**identity, "policy": meaning_of(replayed.policy)}  # another one may have taken over since
        await replayed.whole.write(store, identity, replayed.place(unsent))
    finally:
        await publisher.stop()
        await store.close()
    number = replayed.whole.meta.release
    return Rebuilt(policy.table, number, number - first + 1, None if begin is None else first - 1)


async def _is_current(store: Store, policy: Policy, identity: Identity, number: int, manifest: bytes) -> bool:
    """Whether there is nothing to do. Raises InputError if Redis is one release ahead, which the worker publishes."""
    digest = sha256(manifest).hexdigest()
    try:
        meta = await store.meta()
    except FormatError:
        return False
    if meta is None or meta.release < number:
        return False
    if meta.release == number:
        is_same = meta.manifest == digest and meta.identity["events"] == identity["events"]
        return is_same and await is_whole(store, meta)
    if store.shards > 1:
        return False  # what was announced is frozen again afterwards, and nothing of any other was seen
    sealed = await store.sealed_manifest(meta.release)
    if meta.release == number + 1 and sealed is not None and json.loads(sealed)["previous"] == digest:
        raise InputError(
            f"Redis has release {meta.release} of table {policy.table}, sealed and not published yet: nothing is "
            "lost, start the worker and it will publish it"
        )
    return False


class _Replayed:
    """The state as it follows from the events, release by release, and the rejects on the way, by label."""

    def __init__(
        self,
        policy: Policy,
        settings: Settings,
        partitions: int,
        begun: Whole,
        begin: Beginning | None,
        policies: Mapping[str, Policy],
        folder: Path,
    ) -> None:
        self._servers, self._secret = settings.kafka_servers, settings.key_bytes
        self._policies, self._folder = policies, folder
        self.policy = policy  # of the last release that was made
        self._changes: set[int] = set()  # offsets of the triggers with which another one took over
        self._key = fingerprint(settings.key_bytes, policy.table)
        self.whole = begun
        place = _START if begin is None else begin.place
        self.external = place.external
        self.offsets = list(place.offsets) or [0] * partitions
        self.trigger = place.next_trigger - 1
        self.fired = place.fired or time.time()
        self.at = place.at
        # By label, what is to be left out of releases to come, and what was left out of those made.
        self.skipped = {label: set(offsets) for label, offsets in place.skipped.items()}
        self._left_out = {label: set(offsets) for label, offsets in place.skipped.items()}
        self._first = self.whole.meta.release + 1
        # By release, its trigger and the last time named until then; before them, those of the snapshot.
        self._times: list[tuple[int, str | None]] = [(self.trigger, self.at)]
        self.rejects: dict[str, list[RejectNote]] = {str(number): [] for number in range(partitions)}
        self.rejects |= {label: list(notes) for label, notes in place.rejects.items()}
        self._intakes = self.whole.intakes(policy, partitions)
        self._takers = [make_taker(intake) for intake in self._intakes]
        self._next_trigger = place.next_trigger

    def _go_on_under(self, policy: Policy) -> None:
        """Judge events by this policy from now on."""
        self.policy, self._intakes = policy, self.whole.intakes(policy, len(self._intakes))
        self._takers = [make_taker(intake) for intake in self._intakes]

    async def follow(self, release: CommittedRelease, events: WindowedEvents) -> None:
        """Make the next release again. Raises GuaranteeError if it is not the published one, InputError if it cannot
        be.
        """
        origin = read_origin(release.number, release.headers, len(self.offsets))
        changed = self._check(release, origin)
        for number, end in enumerate(origin.offsets):
            async for records in events.read(number, end):
                self._take(number, records, origin.skipped.get(str(number), ()))
        topics = Topics(self.policy.table)
        read = await read_external(self._servers, topics, self.policy, self.external, origin.external, origin.skipped)
        for label, notes in read.rejects.items():
            self.rejects.setdefault(label, []).extend(notes)
        windows = {n: intake.cut() for n, intake in enumerate(self._intakes)}
        window = Window(origin.at, windows, read.groups)
        made = await in_thread(self.whole.make, window, self.policy, changed, release.number)
        if made.manifest != release.manifest or read_states(release.headers) != made.proofs:
            raise GuaranteeError(
                f"release {release.number} of table {self.policy.table} does not come out as it was published: the "
                "events, the policy, SHOAL_KEY, SHOAL_MAX_RECORD or the engine are not those it was made from"
            )
        self._end_window(made)
        for label, offsets in origin.skipped.items():
            self._left_out.setdefault(label, set()).update(offsets)
        self.offsets, self.trigger = list(origin.offsets), origin.trigger
        self.external = read.ends
        if window.at is not None:
            self.at, self.fired = window.at, moment_of(window.at).timestamp()
        self._times.append((origin.trigger, self.at))
        await in_thread(made.apply)
        if changed is not None:
            self._changes.add(origin.trigger)
            self._go_on_under(changed)

    async def read_triggers(self, servers: list[str], topics: Topics) -> None:
        """Find the triggers that were rejected before the last one that made a release, and what is to be left out."""
        reader = EventReader(self.policy)
        self.rejects.setdefault(TRIGGERS, [])
        async with open_reader(servers) as consumer:
            async for records in read_to_end(consumer, TopicPartition(topics.triggers, 0), self._next_trigger):
                for record in records:
                    self._note(
                        record.offset, read_trigger(Trigger(record.offset, record.value, record.headers), reader)
                    )
        self.rejects[TRIGGERS] = [
            RejectNote(note.offset, str(Reason.SKIPPED)) if note.offset in self.skipped.get(TRIGGERS, ()) else note
            for note in self.rejects[TRIGGERS]
        ]

    def _note(self, offset: int, asked: ReleaseRequest | SkipRequest | ChangeRequest | Reject) -> None:
        """Judge a trigger as the planner did, by the releases that were made for earlier ones."""
        if isinstance(asked, ReleaseRequest):
            earlier = bisect_left(self._times, offset, key=itemgetter(0))
            judged: object = judge_request(asked, self._times[earlier - 1][1])
            is_stale = asked.number is not None and asked.number != self._first + earlier - 1
        elif isinstance(asked, SkipRequest):
            record, is_stale = record_of(asked), False
            is_late = record.offset < self._ends().get(record.label, 0)
            judged = Reject(Reason.TOO_LATE, "skip", "offset") if is_late else ReleaseRequest(None)
            if not is_late:
                self.skipped.setdefault(record.label, set()).add(record.offset)
            elif record.offset in self._left_out.get(record.label, ()):
                is_stale = True  # it was in time then
        elif isinstance(asked, ChangeRequest):
            judged, is_stale = Reject(Reason.REFUSED, "change"), offset in self._changes
        else:
            judged, is_stale = asked, False
        if offset < self.trigger and isinstance(judged, Reject) and not is_stale:
            self.rejects[TRIGGERS].append(note_of(offset, judged))

    def _ends(self) -> dict[str, int]:
        """By label, where the last release stopped."""
        ends = {str(number): end for number, end in enumerate(self.offsets)}
        return ends | {external_label(number): end for number, end in enumerate(self.external)}

    def place(self, unsent: Mapping[str, list[RejectNote]]) -> TablePlace:
        """Where the table is, as it is to be written."""
        return TablePlace(
            offsets=self.offsets,
            external=self.external,
            next_trigger=self.trigger + 1,
            fired=self.fired,
            at=self.at,
            skipped={label: frozenset(offsets) for label, offsets in self.skipped.items()},
            rejects=unsent,
        )

    def _check(self, release: CommittedRelease, origin: Origin) -> Policy | None:
        """The policy that takes over, if one does. Refuses a release of another engine, and an unknown policy."""
        engine, policy = release.meaning.get("engine"), str(release.meaning.get("policy"))
        first = self.whole.meta.release + 1
        if engine != ENGINE:
            raise InputError(
                f"release {first} of table {self.policy.table} was made by another engine than {ENGINE}, which would "
                "not make the same bytes: begin with the snapshot that `shoal upgrade` has taken, or a later one "
                "(--snapshot), or run the version of Shoal that made it"
            )
        found = self._policies.get(policy) or self._policies.get(origin.policy)
        changes = "previous_policy" in release.meaning
        is_same = changes or release.number == 1 or (found and meaning_of(found) == meaning_of(self.policy))
        if found is None or origin.policy != meaning_of(found) or not is_same:
            raise InputError(
                f"release {release.number} of table {self.policy.table} was made under another policy: its file or a "
                "hierarchy file means something else now"
            )
        if origin.key != self._key:
            raise InputError(f"release {release.number} of table {self.policy.table} was made under another SHOAL_KEY")
        if release.number == 1:
            # Manifests name the files that the table began with, whatever they look like now.
            self.whole = begin_anew(found, self._secret, self._folder, policy)
            self._go_on_under(found)
        return found if changes else None

    def _take(self, number: int, records: Iterable[Record], skipped: Collection[int]) -> None:
        take, rejects = self._takers[number].take, self.rejects[str(number)]
        for record in records:
            reject: Reject | None = Reject(Reason.SKIPPED)
            if record.offset not in skipped:
                reject = take(record.value, record.headers, record.offset)
            if reject is not None:
                rejects.append(note_of(record.offset, reject))

    def _end_window(self, made: Remade) -> None:
        for number, offset in made.misrouted:
            self.rejects[str(number)].append(RejectNote(offset, "wrong-partition"))
        for number, intake in enumerate(self._intakes):
            for person in made.foreign.get(number, ()):
                intake.forget(person)


async def _unsent(
    replayed: _Replayed, servers: list[str], topics: Topics, *, has_letters: bool
) -> dict[str, list[RejectNote]]:
    """The rejects, by label, that are not on the dead-letter topic."""
    unsent: dict[str, list[RejectNote]] = {}
    for label, rejects in replayed.rejects.items():
        if not rejects:
            continue
        source = source_of(label, topics)
        sent = await sent_offsets(servers, target_of(topics), source, 0) if has_letters else set()
        unsent[label] = [reject for reject in rejects if reject.offset not in sent]
    return unsent
