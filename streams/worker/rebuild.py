"""`shoal rebuild`: make the state in Redis again from the topics, and prove that it is the one that was published from.

Every manifest on the releases topic says, in its headers, where the window of its release ended in each partition of
the events topic. So the same events are read in the same windows, judged by the same intake, and planned by the same
engine; the manifest that comes out must be the published one, byte for byte, or nothing is written. It holds the
sha256 of the release's content and of the manifest before, so that this is equality of everything.

What was rejected up to the last release and is not on the dead-letter topic is marked to be sent. What comes after
the last release is for the worker to take, which finds its own dead letters on the topic and does not send them
again.
"""

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from redis.exceptions import RedisError

from shoal.core.events.event import Reject
from shoal.core.events.intake import Intake
from shoal.core.events.window import Delta
from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.policy import Policy
from shoal.core.state import ENGINE, State
from shoal.streams.deadletter.box import sent_offsets, target_of
from shoal.streams.errors import GuaranteeError, InputError, ServiceError
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.intake.codec import content_type, decode_event
from shoal.streams.intake.partition import PERSON_KIND
from shoal.streams.kafka.partition_reader import open_reader, read_to_end
from shoal.streams.kafka.release_reader import PublishedRelease, open_releases
from shoal.streams.kafka.topics import Topics, partition_counts
from shoal.streams.kafka.windows import WindowedEvents, external_of, offsets_of, open_events, time_of
from shoal.streams.log import configure_log, get_log
from shoal.streams.settings import Settings
from shoal.streams.store.encryption import make_seal
from shoal.streams.store.identity import identity_of
from shoal.streams.store.records import Mark, pack
from shoal.streams.store.release_log import OUTBOX, clique_entries, foreign_ids
from shoal.streams.store.store import SHARDS, TRIGGERS, Counts, Store, meta_fields, shard_of
from shoal.streams.thread import in_thread
from shoal.streams.worker.external import external_label, reached, read_external, source_of
from shoal.streams.worker.publish import Publisher
from shoal.streams.worker.trigger import Trigger, read_trigger

_CHUNK = 1_000
_KINDS = ("people:", "groups:", "tree", "cliques", "externals")


def run_rebuild(settings: Settings, *, debug: bool = False) -> int:
    """Rebuild and return 0. Raises StreamsError, with its exit code, if the state cannot be proved or a service is
    missing.
    """
    configure_log(settings.log_format, settings.log_level, debug=debug)
    policy = load_policy(settings.policy_path)
    try:
        return asyncio.run(_rebuild(settings, policy))
    except KafkaError as error:
        raise ServiceError("Kafka went away during the rebuild; Redis holds no state now, so run it again") from error
    except RedisError as error:
        raise ServiceError("Redis went away during the rebuild; it holds no state now, so run it again") from error


async def _rebuild(settings: Settings, policy: Policy) -> int:
    store = Store(settings.redis, policy.table, make_seal(settings.state_key_bytes))
    log = get_log(table=policy.table)
    servers, topics = settings.kafka_servers, Topics(policy.table)
    await store.connect(settings.connect_s)
    counts = await partition_counts(servers, settings.connect_s)
    if topics.events not in counts or topics.releases not in counts:
        raise InputError(f"there are no topics of table {policy.table} to rebuild from")
    partitions = counts[topics.events]
    publisher = Publisher(servers, policy.table)
    try:
        # From here on no worker publishes: what it has under way ends before the topic is read.
        await publisher.start()
        last = await publisher.last()
        if last is None:
            raise InputError(f"nothing of table {policy.table} is published yet: start the worker, it begins by itself")
        if await _is_current(store, policy, last.number, last.value):
            print(f"Redis already holds release {last.number} of table {policy.table}, the last one published.")
            return 0
        replayed = _Replayed(policy, settings, partitions)
        async with (
            open_events(servers, topics.events, partitions) as events,
            open_releases(servers, policy.table, settings.connect_s) as reader,
        ):
            async for release in reader.releases():
                began = time.monotonic()
                await replayed.follow(release, events)
                seconds, people = round(time.monotonic() - began, 3), len(replayed.state.people)
                log.info("rebuild.release", release=release.number, seconds=seconds, people=people)
        await replayed.read_triggers(servers, topics)
        unsent = await _unsent(replayed, servers, topics, has_letters=topics.dead_letter in counts)
        await _write(store, settings, policy, replayed, unsent)
    finally:
        await publisher.stop()
        await store.close()
    print(f"Table {policy.table} is rebuilt: {replayed.state.meta.release} releases, each as it was published.")
    return 0


async def _is_current(store: Store, policy: Policy, number: int, manifest: bytes) -> bool:
    """Whether there is nothing to do. Raises InputError if Redis is one release ahead: the worker publishes that."""
    digest = sha256(manifest).hexdigest()
    meta = await store.meta()
    if meta is None or meta.release < number:
        return False
    if meta.release == number:
        return meta.manifest == digest and await store.is_whole(meta)
    sealed = await store.redis.hget(store.key(f"stage:{meta.release}:{OUTBOX}"), "manifest")
    if meta.release == number + 1 and sealed is not None and json.loads(sealed)["previous"] == digest:
        raise InputError(
            f"Redis holds release {meta.release} of table {policy.table}, sealed and not published yet: nothing is "
            "lost, start the worker and it will publish it"
        )
    return False


class _Replayed:
    """The state as it follows from the events, release by release, and the marks of what was rejected on the way."""

    def __init__(self, policy: Policy, settings: Settings, partitions: int) -> None:
        self._policy, self._servers = policy, settings.kafka_servers
        self.state = State.empty(policy, settings.key_bytes)
        self.external: Sequence[int] = ()
        self.offsets = [0] * partitions
        self.trigger = -1
        self.fired = time.time()
        self.marks: dict[str, list[Mark]] = {str(number): [] for number in range(partitions)}
        self._intakes = [Intake(policy, {}) for _ in range(partitions)]

    async def follow(self, release: PublishedRelease, events: WindowedEvents) -> None:
        """Make the next release again. Raises GuaranteeError if it is not the published one, InputError if it cannot
        be.
        """
        self._check(release)
        ends = offsets_of(release, len(self.offsets))
        for number, end in enumerate(ends):
            async for records in events.read(number, end):
                self._take(number, records)
        topics = Topics(self._policy.table)
        read = await read_external(self._servers, topics, self._policy, self.external, external_of(release))
        for number, refused in read.marks.items():
            self.marks.setdefault(external_label(number), []).extend(refused)
        windows = {n: dict(intake.window) for n, intake in enumerate(self._intakes)}
        window = Window(time_of(release), windows, read.groups)
        made = await in_thread(plan, self.state, window, self._policy, release.number)
        if made.release.manifest != release.manifest:
            raise GuaranteeError(
                f"release {release.number} of table {self._policy.table} does not come out as it was published: the "
                "events, the policy, SHOAL_KEY or the engine are not those it was made from"
            )
        self._settle(made, window.deltas)
        self.offsets, self.trigger = list(ends), int(release.headers["trigger"])
        self.external = read.ends
        if window.at is not None:
            self.fired = datetime.fromisoformat(window.at).timestamp()
        await in_thread(self.state.apply, made.change)

    async def read_triggers(self, servers: list[str], topics: Topics) -> None:
        """Mark the triggers that were rejected before the last one that made a release."""
        self.marks[TRIGGERS] = []
        async with open_reader(servers) as consumer:
            async for records in read_to_end(consumer, TopicPartition(topics.triggers, 0), 0):
                for record in records:
                    asked = read_trigger(Trigger(record.offset, record.value, record.headers))
                    if record.offset < self.trigger and isinstance(asked, Reject):
                        mark = Mark(record.offset, str(asked.reason), asked.field, asked.op)
                        self.marks[TRIGGERS].append(mark)

    def _check(self, release: PublishedRelease) -> None:
        engine, policy = release.meaning.get("engine"), release.meaning.get("policy")
        if engine != ENGINE:
            raise InputError(
                f"release {release.number} of table {self._policy.table} was made by engine {engine}, and this is "
                f"engine {ENGINE}: run the version of Shoal that made it"
            )
        if policy != self._policy.digest:
            raise InputError(
                f"release {release.number} of table {self._policy.table} was made under another policy: its file or a "
                "hierarchy file has changed since"
            )

    def _take(self, number: int, records: Iterable[Any]) -> None:
        intake, marks = self._intakes[number], self.marks[str(number)]
        for record in records:
            event = decode_event(record.value, content_type(record.headers))
            refused = event if isinstance(event, Reject) else intake.take(event, record.offset)
            if refused is not None:
                marks.append(Mark(record.offset, str(refused.reason), refused.field, refused.op))

    def _settle(self, made: Plan, windows: Mapping[int, Mapping[str, Delta]]) -> None:
        for number, offset in made.misrouted:
            self.marks[str(number)].append(Mark(offset, "wrong-partition", None, None))
        foreign = foreign_ids(made, self.state, windows)
        for number, intake in enumerate(self._intakes):
            intake.cut()
            for person in foreign.get(number, ()):
                intake.forget(person)


async def _unsent(
    replayed: _Replayed, servers: list[str], topics: Topics, *, has_letters: bool
) -> dict[str, list[Mark]]:
    """The marks of what was rejected and is not on the dead-letter topic."""
    unsent: dict[str, list[Mark]] = {}
    for label, marks in replayed.marks.items():
        if not marks:
            continue
        source = source_of(label, topics)
        sent = await sent_offsets(servers, target_of(topics), source, 0) if has_letters else set()
        unsent[label] = [mark for mark in marks if mark.offset not in sent]
    return unsent


async def _write(
    store: Store, settings: Settings, policy: Policy, replayed: _Replayed, unsent: Mapping[str, list[Mark]]
) -> None:
    """Everything of the table, `meta` last: until that is there, Redis counts as knowing nothing."""
    await store.wipe()
    state, seal = replayed.state, store.seal
    entries: dict[str, list[bytes]] = {}

    def collect() -> None:
        for person_id, person in state.people_records():
            field = seal.field(person_id)
            value = seal.close(PERSON_KIND, field, person_id, pack(tuple(person)))
            entries.setdefault(f"people:{person.home}:{shard_of(field)}", []).extend((field, value))
        for group, record in state.group_records():
            entries.setdefault(f"groups:{group % SHARDS}", []).extend((str(group).encode(), pack(tuple(record))))
        for node, split in state.node_records():
            entries.setdefault("tree", []).extend((str(node).encode(), pack(tuple(split))))
        if cliques := list(clique_entries(state.clique_records(), seal, pack)):
            entries["cliques"] = cliques
        for number, other in state.external_records():
            entries.setdefault("externals", []).extend((str(number).encode(), pack(other)))
        if replayed.external:
            entries["external"] = reached(replayed.external)

    await in_thread(collect)
    for key, pairs in entries.items():
        pipeline = store.redis.pipeline(transaction=False)
        for start in range(0, len(pairs), 2 * _CHUNK):
            pipeline.execute_command("HSET", store.key(key), *pairs[start : start + 2 * _CHUNK])
        await pipeline.execute()
    for label, marks in unsent.items():
        for start in range(0, len(marks), _CHUNK):
            packed = [pack(mark) for mark in marks[start : start + _CHUNK]]
            await store.redis.rpush(store.key(f"rejects:{label}"), *packed)
    release = state.meta.release
    ingest: dict[str, str] = {"trigger": str(replayed.trigger + 1), "fired": repr(replayed.fired)}
    for number, offset in enumerate(replayed.offsets):
        ingest |= {f"offset:{number}": str(offset), f"window:{number}": str(release + 1)}
    sizes = {kind: sum(len(pairs) // 2 for key, pairs in entries.items() if key.startswith(kind)) for kind in _KINDS}
    counts = Counts(*sizes.values())
    identity = identity_of(settings, policy, store)
    fields = meta_fields(identity, len(replayed.offsets), time.time(), state.meta, counts)
    pipeline = store.redis.pipeline(transaction=True)
    pipeline.hset(store.key("ingest"), mapping=ingest)
    pipeline.hset(store.key("meta"), mapping=fields)
    await pipeline.execute()
