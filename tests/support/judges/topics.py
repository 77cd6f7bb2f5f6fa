"""What stands on a table's topics, and a judge that reads nothing else.

The judge replays the events topic by the offsets in the manifests' headers through core alone, without Redis, ingest or
planner, and says whether every release is what must come out and every rejected record is a dead letter once. It uses
confluent-kafka, the workers use aiokafka: they share no client.
"""

import json
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from shoal.core.events.event import Reject
from shoal.core.events.intake import Intake
from shoal.core.overlap.external import ExternalGroup, parse_external
from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.policy import Policy
from shoal.core.shards.table import Table as Sharded
from shoal.core.state import State
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.intake.formats import EventReader
from shoal.streams.kafka.topics import Topics

KEY = "a secret of the tests"
Place = tuple[str, int, int]  # topic, partition, offset


@dataclass(frozen=True)
class Record:
    """A record as it stands on a topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes]


@dataclass(frozen=True)
class Published:
    """A release as it stands on the topic."""

    records: tuple[bytes, ...]
    manifest: bytes
    headers: Mapping[str, bytes]

    @property
    def number(self) -> int:
        return int(json.loads(self.manifest)["release"])


class Made(NamedTuple):
    """A release made again."""

    manifest: bytes
    records: tuple[bytes, ...]


class Share(NamedTuple):
    """What one release was made of, a partition after the other."""

    release: Published
    events: list[Record]
    external: list[Record]


class Judged:
    """A table as its topics show it."""

    def __init__(self, kafka: str, name: str, partitions: int, policy_path: Path) -> None:
        self.kafka, self.name, self.partitions, self.policy_path = kafka, name, partitions, policy_path
        self.topics = Topics(name)

    def read(self, topic: str, partition: int) -> list[Record]:
        """All committed records of a partition."""
        return self.read_all((topic, partition))[0]

    def read_all(self, *places: tuple[str, int]) -> list[list[Record]]:
        """All committed records of each of these partitions, with one client for all of them."""
        if not places:
            return []
        consumer = Consumer(
            {
                "bootstrap.servers": self.kafka, "group.id": "nobody", "enable.auto.commit": False,
                "isolation.level": "read_committed", "enable.partition.eof": True, "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 10,  # the end of a partition is told by an empty answer, which brokers hold back
            }
        )  # fmt: skip
        found: dict[tuple[str, int], list[Record]] = {place: [] for place in places}
        unread = set(places)
        try:
            consumer.assign([TopicPartition(*place, 0) for place in places])
            deadline = time.monotonic() + 60
            while unread and time.monotonic() < deadline:
                message = consumer.poll(0.05)  # one at a time: `consume` waits for more than there are
                if message is None:
                    continue
                place, error = (message.topic(), message.partition()), message.error()
                if error is None:
                    if place in unread:
                        headers = dict(message.headers() or ())
                        record = Record(place[1], message.offset(), message.key(), message.value(), headers)
                        found[place].append(record)
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(place)
        finally:
            consumer.close()
        if unread:
            raise TimeoutError(f"topic {min(unread)[0]} could not be read to its end")
        return [found[place] for place in places]

    def releases(self) -> list[Published]:
        """What is published; of a table with shards the records are those of its parts, shard after shard."""
        found: list[Published] = []
        records: list[bytes] = []
        announced: list[bytes] = []
        for record in self.read(self.topics.releases, 0):
            assert record.value is not None
            if record.headers.get("kind") == b"sealed":
                announced.append(record.value)
            elif record.headers.get("kind") == b"manifest":
                found.append(Published(tuple(records), record.value, record.headers))
                records = []
            else:
                records.append(record.value)
        assert announced or not records, "group records without a manifest"
        if announced:
            assert announced[: len(found)] == [one.manifest for one in found], "what was announced was not published"
            assert len(announced) <= len(found) + 1, "two releases were announced at once"
            found = self._with_parts(found)
        return found

    def _with_parts(self, releases: list[Published]) -> list[Published]:
        """The records of every shard, which are all that stand on its partition, each once and in order."""
        shards = len(json.loads(releases[0].headers["parts"])) if releases else 0
        waiting = self.read_all(*((self.topics.releases, shard) for shard in range(shards)))
        waiting = [[record for record in part if "kind" not in record.headers] for part in waiting]
        whole: list[Published] = []
        for release in releases:
            records: list[bytes] = []
            for shard, (first, end) in enumerate(json.loads(release.headers["parts"])):
                cut = bisect_left(waiting[shard], end, key=_offset)
                here, waiting[shard] = waiting[shard][:cut], waiting[shard][cut:]
                assert all(record.offset >= first for record in here), "records that no release names"
                assert {record.key for record in here} <= {f"{self.name}/{release.number}".encode()}
                records += [record.value or b"" for record in here]
            whole.append(replace(release, records=tuple(records)))
        return whole

    def dead_letters(self) -> Counter[tuple[str, int, int]]:
        """How often each (topic, partition, offset) is a dead letter."""
        return Counter(
            (letter.headers["topic"].decode(), int(letter.headers["partition"]), int(letter.headers["offset"]))
            for letter in self.read(self.topics.dead_letter, 0)
        )

    def shares(self) -> tuple[list[Share], list[Record]]:
        """What every release was made of, by the offsets in its headers; and the records after the last one's."""
        releases = self.releases()  # first: whatever they were made of is on the topics by now
        sources = (self.topics.events, self.topics.external)
        read = self.read_all(*((topic, partition) for topic in sources for partition in range(self.partitions)))
        waiting = {"offsets": read[: self.partitions], "external": read[self.partitions :]}
        found: list[Share] = []
        for release in releases:
            taken: dict[str, list[Record]] = {"offsets": [], "external": []}
            for header, partitions in waiting.items():
                for number, end in enumerate(json.loads(release.headers[header])):
                    cut = bisect_left(partitions[number], int(end), key=_offset)
                    taken[header] += partitions[number][:cut]
                    partitions[number] = partitions[number][cut:]
            found.append(Share(release, taken["offsets"], taken["external"]))
        return found, [record for partitions in waiting.values() for records in partitions for record in records]

    def judge(self, *, complete: bool = True) -> list[Published]:
        """Raise AssertionError unless the topics tell what must have happened.

        `complete`: everything is over, so no event is after the last release and no dead letter is still to come.
        Otherwise more may be on its way, and what is there must be right as far as it goes.
        """
        shares, rest = self.shares()
        again = _Again(load_policy(self.policy_path), self.topics, self.partitions)
        previous = None
        for number, share in enumerate(shares, start=1):
            release = share.release
            assert release.number == number, "release numbers have a gap or come twice"
            assert json.loads(release.manifest)["previous"] == previous, "the chain of manifests is broken"
            previous = sha256(release.manifest).hexdigest()
            made = again.make(share)
            assert made.manifest == release.manifest, f"release {number} is not what its events come to"
            assert made.records == release.records, f"the records of release {number} are not its content"
        sources = (self.topics.events, self.topics.external)
        letters = Counter({place: n for place, n in self.dead_letters().items() if place[0] in sources})
        assert all(count == 1 for count in letters.values()), "a dead letter was sent twice"
        if complete:
            assert again.rejected <= letters.keys(), "a rejected record is not a dead letter"
            assert not rest, "events are missing from the releases"
        taken = {
            (topic, partition): end
            for topic, header in zip(sources, ("offsets", "external"), strict=True)
            for partition, end in enumerate(json.loads(shares[-1].release.headers[header]) if shares else ())
        }
        judged = {place for place in letters if complete or place[2] < taken.get(place[:2], 0)}
        assert judged <= again.rejected, "something is a dead letter that was not rejected"
        return [share.release for share in shares]


class _Again:
    """The releases made again by core alone, and what had to be rejected on the way."""

    def __init__(self, policy: Policy, topics: Topics, partitions: int) -> None:
        self._policy, self._topics = policy, topics
        self._state = State.empty(policy, KEY.encode())
        self._table = None if policy.shards == 1 else Sharded.empty(policy, KEY.encode())
        self._intakes = [Intake(policy, {}) for _ in range(partitions)]
        self._reader = EventReader(policy)
        self.rejected: set[Place] = set()

    def make(self, share: Share) -> Made:
        for record in share.events:
            event = self._event(record)
            if isinstance(event, Reject) or self._intakes[record.partition].take(event, record.offset) is not None:
                self.rejected.add((self._topics.events, record.partition, record.offset))
        groups: list[ExternalGroup] = []
        for record in share.external:
            event = self._event(record)
            read = event if isinstance(event, Reject) else parse_external(event, self._policy)
            if isinstance(read, Reject):
                self.rejected.add((self._topics.external, record.partition, record.offset))
            else:
                groups += read.groups
        at = share.release.headers.get("at")
        deltas = {number: dict(intake.window) for number, intake in enumerate(self._intakes)}
        window = Window(at.decode() if at else None, deltas, groups)
        if self._table is not None:
            return self._make_parts(self._table, window, share.release.number)
        made = plan(self._state, window, self._policy, share.release.number)
        self._reject(made.misrouted)
        self._send_home(made)
        self._state.apply(made.change)
        return Made(made.release.manifest, made.release.records)

    def _make_parts(self, table: Sharded, window: Window, number: int) -> Made:
        made = table.plan(window, number)
        self._reject(made.misrouted)
        table.apply(made)
        homes = {
            person: int(state.people.home[row])
            for state in table.states
            for person, row in zip(state.people.ids(state.people.here()), state.people.here().tolist(), strict=True)
        }
        self._keep(homes.__getitem__)
        return Made(made.manifest, tuple(record for part in made.parts for record in part.records))

    def _reject(self, misrouted: Iterable[tuple[int, int]]) -> None:
        self.rejected.update((self._topics.events, partition, offset) for partition, offset in misrouted)

    def _event(self, record: Record) -> object:
        return self._reader.read(record.value, list(record.headers.items()))

    def _send_home(self, made: Plan) -> None:
        def home_of(person: str) -> int:
            row = self._state.people.row(person)
            return int(self._state.people.home[row]) if row is not None else made.change.people[person].home

        self._keep(home_of)

    def _keep(self, home_of: Callable[[str], int]) -> None:
        """Who turned out to be at home in another partition is unknown in this one again."""
        for number, intake in enumerate(self._intakes):
            for person in list(intake.window):
                if home_of(person) != number:
                    intake.forget(person)
            intake.cut()


def _offset(record: Record) -> int:
    return record.offset
