"""`shoal source`: one process that reads the captured tables' topics and writes Shoal's events, exactly once.

A batch goes through five steps (docs/source.md, "Step by step"):

1. poll   committed records of the captured tables and, of those in Avro, the schemas
2. judge  read them, join them with what Redis holds, decide on events and dead letters; in memory only
3. stage  write to Redis what the batch will change, under its number
4. commit one Kafka transaction: events, dead letters, offsets, the number of the batch
5. apply  change the book in Redis, and forget the staged batch

There is one source of a table at a time. A new one first refuses the former one, in Redis by a token and in Kafka by
the transactional id, and then asks Kafka for the number of the last committed batch. If it is that of the staged batch,
that batch is applied; if it is the one before, the staged batch never happened. After any error everything in memory is
thrown away and the source begins like that again.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from shoal.core.events.event import Reason, Reject
from shoal.core.policy.policy import Policy
from shoal.streams.errors import FencedError, GuaranteeError, InputError, LostError, ServiceError
from shoal.streams.faults import crash_point
from shoal.streams.files.mapping.mapping import CapturedTable, TableMapping
from shoal.streams.kafka.cloud_event import dead_letter_event
from shoal.streams.kafka.partition_reader import open_reader
from shoal.streams.kafka.refusal import is_refusal
from shoal.streams.kafka.rights import refused
from shoal.streams.kafka.transaction import Message
from shoal.streams.log import get_log
from shoal.streams.settings import Settings
from shoal.streams.source.avro import Schemas
from shoal.streams.source.desk import Desk, Role
from shoal.streams.source.envelope import Change, cut_down, read_change
from shoal.streams.source.inlet import Inlet
from shoal.streams.source.outlet import Outlet
from shoal.streams.source.person import UNKNOWN, Person, read_person
from shoal.streams.source.place import Place, Stage, read_place
from shoal.streams.source.present import read_present
from shoal.streams.source.registry import open_registry
from shoal.streams.store.connection import RedisError, is_passing
from shoal.streams.store.source_book import PEOPLE, ROWS, SourceBook, Staged, Write
from shoal.streams.vitals import READY, SourceVitals

_PAUSE_S = 1.0
# Kafka forgets the offsets of a group that commits nothing, after a week unless it is told otherwise.
_COMMIT_AT_LEAST_S = 3600.0
_Taken = tuple[TopicPartition, Any]


class Source:
    """The source of one table. `run` goes on until `stop`, or until nothing has come for `stop_after_s`."""

    def __init__(
        self, settings: Settings, policy: Policy, mapping: TableMapping, book: SourceBook, vitals: SourceVitals
    ) -> None:
        self._settings, self._policy, self._mapping, self._book = settings, policy, mapping, book
        self._vitals = vitals
        self._roles: dict[str, tuple[Role, CapturedTable]] = {mapping.people.topic: (Role.PEOPLE, mapping.people)}
        if mapping.values_table is not None:
            self._roles[mapping.values_table.topic] = (Role.VALUES, mapping.values_table)
        self._desk = Desk(policy, mapping)
        self._schemas = Schemas(open_registry(settings))
        self._place = Place()
        self._number = 0
        self._committed_at = 0.0
        self._looked_on = 0  # the last day whose people were looked at
        self._is_stopping = False
        self._said_silent = ""
        self._log = get_log(table=policy.table)

    def stop(self) -> None:
        """End after the batch that is under way."""
        self._is_stopping = True

    async def run(self, *, stop_after_s: float | None = None, anew: bool = False) -> None:
        """Raises InputError if another source has taken over, GuaranteeError if the book was lost."""
        while not self._is_stopping:
            try:
                async with self._tenure(anew=anew) as (inlet, outlet):
                    anew = False
                    await self._go_on(inlet, outlet, stop_after_s)
                    return
            except (FencedError, LostError, KafkaError, RedisError, ServiceError, OSError) as error:
                await self._check(error)
                self._log.warning("source.again", error=type(error).__name__)
                self._vitals.again(type(error).__name__)
                await asyncio.sleep(_PAUSE_S)

    async def _check(self, error: Exception) -> None:
        """Raises if it is no use to begin again."""
        if isinstance(error, RedisError) and not is_passing(error):
            raise error
        if is_refusal(error):  # it was granted when the source started
            lost = f"what was taken away from it ({type(error).__name__})"
            raise refused(self._settings.kafka_servers, [lost]) from error
        if isinstance(error, FencedError) and not await self._book.is_ours():
            raise InputError(
                f"another `shoal source` of table {self._policy.table} has taken over: run one of them at a time"
            )

    # -- beginning ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _tenure(self, *, anew: bool) -> AsyncIterator[tuple[Inlet, Outlet]]:
        """Refuse the former source, find out where it stopped, and open both ends."""
        servers = self._settings.kafka_servers
        outlet = Outlet(servers, self._policy.table)
        try:
            if anew:
                await self._book.clear()
            begun = await self._book.own(self._mapping.fingerprint)
            if begun != self._mapping.fingerprint:
                raise InputError(
                    "the mapping names other topics or columns than the one that this source began with, and the "
                    "stored rows do not have them: give the original mapping, or start with --anew"
                )
            await outlet.start()
            await self._recover(outlet, anew=anew)
            async with open_reader(servers, self._settings.connect_s) as consumer:
                inlet = Inlet(consumer, servers, self._roles)
                await inlet.open(self._place.offsets)
                self._log.info("source.ready", partitions=inlet.partitions)
                self._vitals.say(READY)
                yield inlet, outlet
        finally:
            await outlet.stop()

    async def _recover(self, outlet: Outlet, *, anew: bool) -> None:
        """Bring the book to where Kafka is. Raises GuaranteeError if it cannot be brought there."""
        committed = await outlet.committed()
        standing = await self._book.standing()
        number, place, staged = standing.number, standing.place, standing.staged
        if staged is not None and committed.number == staged.number == number + 1:
            await self._book.apply(staged)
            number, place = staged.number, staged.place
        elif anew:
            number, place = committed.number, Place(stage=Stage.LEARNING).pack()
            await self._book.apply(Staged(number, place, []))
        # Offsets that Kafka has forgotten are as the book has them, unless a batch was under way.
        elif committed.number != number and (committed.offsets or staged is not None):
            raise GuaranteeError(
                f"Redis has lost the state of the source of table {self._policy.table}: start the source with "
                "--anew to read the topics from their beginning, after a new snapshot if their beginning is gone"
            )
        self._number, self._place = number, Place() if place is None else read_place(place)
        self._desk.census = self._place.census
        self._committed_at, self._looked_on = time.monotonic(), 0

    # -- going on -----------------------------------------------------------------------------------------------------

    async def _go_on(self, inlet: Inlet, outlet: Outlet, stop_after_s: float | None) -> None:
        came_at = time.monotonic()
        while not self._is_stopping:
            today = datetime.now(UTC).date()
            if self._place.stage is Stage.LEARNING:
                await self._learn(inlet, outlet)
                continue
            if self._place.seal != self._book.seal and self._place.offsets:
                await self._encrypt_anew(outlet)
            if self._place.has_caught_up() and await self._knows_everybody(inlet):
                await self._speak(outlet, today)
            for role in self._place.due_sweeps():
                await self._sweep(role, outlet, today)
            if today.toordinal() != self._looked_on:
                await self._look_at_due(outlet, today)
            records = await inlet.take(self._settings.batch)  # step 1
            if records:
                await self._take(records, inlet, outlet, today)
                came_at = time.monotonic()
            elif time.monotonic() - self._committed_at > _COMMIT_AT_LEAST_S and self._place.offsets:
                await self._commit(outlet, [], [], [])
            elif stop_after_s is not None and time.monotonic() - came_at >= stop_after_s and await inlet.is_at_end():
                return
            else:  # behind the last record there may be the end of a transaction
                self._place.offsets.update(await inlet.positions())
            self._vitals.behind(inlet.lag(self._place.offsets))

    async def _take(self, records: list[_Taken], inlet: Inlet, outlet: Outlet, today: date) -> None:
        """One batch. It ends with the last row of a snapshot, so that what is missing goes before what comes next."""
        self._desk.forget()
        await self._schemas.learn(record for _, record in records)
        changes = [(taken, self._read(taken)) for taken in records]
        await self._load([change for _, change in changes if isinstance(change, Change)])
        letters: list[Message] = []
        reasons: list[Reason] = []
        done = 0
        for (partition, record), change in changes:
            done += 1
            role, table = self._roles[partition.topic]
            outcome = self._desk.apply(role, change, today) if isinstance(change, Change) else change
            if isinstance(outcome, Reject):
                letters.append(self._letter(partition, record, outcome, table))
                reasons.append(outcome.reason)
            self._place.offsets[partition] = record.offset + 1
            if isinstance(change, Change) and await self._note_sweeps(role, change, inlet):
                break
        inlet.take_back(records[done:])
        events = self._settle(today)
        await self._commit(outlet, events, letters, self._writes())
        self._vitals.batch(done, len(events), reasons)
        self._log.info("source.batch", records=done, events=len(events), rejects=len(letters))

    def _read(self, taken: _Taken) -> Change | Reject | None:
        partition, record = taken
        _, table = self._roles[partition.topic]
        return read_change(record.key, record.value, record.headers, table, self._schemas)

    def _letter(self, partition: TopicPartition, record: Any, reject: Reject, table: CapturedTable) -> Message:
        """The dead letter of a row: the columns that the mapping names, and why it was not taken."""
        said = {"reason": str(reject.reason)} | ({} if reject.field is None else {"field": reject.field})
        said |= {"topic": partition.topic, "partition": str(partition.partition), "offset": str(record.offset)}
        headers = [("content-type", b"application/json"), *((name, value.encode()) for name, value in said.items())]
        about = dead_letter_event(self._policy.table, partition.topic, partition.partition, record.offset)
        return Message(None, cut_down(record.value, table, record.headers, self._schemas), [*headers, *about])

    async def _load(self, changes: list[Change]) -> None:
        """Have everybody at hand whom these changes are about."""
        desk, ids = self._desk, {self._desk.person_id(change) for change in changes}
        wanted = {person_id for person_id in ids if isinstance(person_id, str)}
        if self._mapping.values_table is not None:
            desk.rows = dict(await self._book.read(ROWS, {change.key for change in changes}))
            wanted.update(desk.rows.values())
        found = await self._book.read(PEOPLE, wanted)
        desk.people = {person_id: read_person(stored) for person_id, stored in found.items()}

    async def _note_sweeps(self, role: Role, change: Change, inlet: Inlet) -> bool:
        """Whether a look at a table is complete with this change. What it did not find is swept before anything else is
        read or, with several partitions or on another topic, when all of that is read as far as it is now: rows of the
        same snapshot may still wait there.
        """
        complete = self._desk.complete_looks(role, change)
        for one in complete:
            ends = await inlet.ends(next(topic for topic, (known, _) in self._roles.items() if known is one))
            self._place.sweeps[one] = {} if one is role and len(ends) == 1 else ends
        return bool(complete)

    async def _sweep(self, role: Role, outlet: Outlet, today: date) -> None:
        """Take away the rows that a complete look at a table did not find, a page of people at a time."""
        removed = 0
        async for page in self._book.pages(PEOPLE):
            await self._open_page(page)
            for person_id in page:
                self._desk.sweep(role, person_id)
            if self._desk.touched:
                events = self._settle(today)
                removed += len(events)
                await self._commit(outlet, events, [], self._writes())
        del self._place.sweeps[role]
        await self._commit(outlet, [], [], [])
        self._log.info("source.swept", topic=role.value, events=removed)

    async def _encrypt_anew(self, outlet: Outlet) -> None:
        """The first key of SHOAL_STATE_KEY is another one: write everything with it, so that the others may go."""
        for kind in (PEOPLE, ROWS) if self._place.seal else ():
            async for page in self._book.pages(kind):
                writes = [self._book.put(kind, identity, stored) for identity, stored in page.items()]
                await self._commit(outlet, [], [], writes)
        self._place.seal = self._book.seal
        await self._commit(outlet, [], [], [])

    async def _learn(self, inlet: Inlet, outlet: Outlet) -> None:
        """Begin anew: note everybody whom Shoal knows, and read without a word up to where the topics end now."""
        await inlet.look()
        self._place.offsets.update(await inlet.positions())
        if not self._place.offsets:  # without a topic there is no place that Kafka could keep
            await asyncio.sleep(_PAUSE_S)
            return
        known = await read_present(self._settings.kafka_servers, self._policy)
        for start in range(0, len(known), self._settings.batch):
            chunk = known[start : start + self._settings.batch]
            person = Person(told=UNKNOWN).pack()
            await self._commit(outlet, [], [], [self._book.put(PEOPLE, person_id, person) for person_id in chunk])
        self._place.stage = Stage.SILENT
        for topic in self._roles:
            self._place.silent_until |= await inlet.ends(topic)
        await self._commit(outlet, [], [], [])

    async def _knows_everybody(self, inlet: Inlet) -> bool:
        """Whether what was read is all there is: from the topics' first records on, or since a complete snapshot. Else
        whoever is not in the topics any more would be taken for gone.
        """
        for topic, (role, _) in self._roles.items():
            look = self._place.census[role]
            if not (look.epoch and look.is_swept) and not await inlet.begins_at_zero(topic):
                if self._said_silent != topic:
                    self._log.warning(
                        "source.silent", topic=topic, reason="take a snapshot: its first records are gone"
                    )
                self._said_silent = topic
                return False
        return True

    async def _speak(self, outlet: Outlet, today: date) -> None:
        """Tell what differs from what Shoal knows, of everybody, and go on as usual."""
        self._place.stage, self._place.silent_until = Stage.TELLING, {}
        async for page in self._book.pages(PEOPLE):
            await self._open_page(page)
            self._desk.touched = set(page)
            events = self._settle(today)
            await self._commit(outlet, events, [], self._writes())
        await self._commit(outlet, [], [], [])

    async def _open_page(self, stored: Mapping[str, Any]) -> None:
        """Have these people at hand, and the rows that are theirs."""
        self._desk.forget()
        self._desk.people = {person_id: read_person(one) for person_id, one in stored.items()}
        keys = {key for person in self._desk.people.values() for key in person.values}
        self._desk.rows = dict(await self._book.read(ROWS, keys)) if keys else {}

    def _settle(self, today: date) -> list[dict[str, Any]]:
        return self._desk.settle(today, is_silent=self._place.stage is not Stage.TELLING)

    async def _look_at_due(self, outlet: Outlet, today: date) -> None:
        """Look again at people who change by themselves: birthdays, values that begin or end."""
        async for day, found in self._book.due(today.toordinal()):
            await self._open_page(found)
            self._desk.touched = set(found)
            events = self._settle(today)
            await self._commit(outlet, events, [], [*self._writes(), *self._book.pass_day(day)])
        self._looked_on = today.toordinal()

    # -- committing ---------------------------------------------------------------------------------------------------

    def _writes(self) -> list[Write]:
        writes: list[Write] = []
        for person_id in self._desk.touched:
            person = self._desk.people[person_id]
            if person.is_empty:
                writes.append(self._book.remove(PEOPLE, person_id))
                continue
            writes.append(self._book.put(PEOPLE, person_id, person.pack()))
            if person.due:
                writes += self._book.remember(person_id, person.due)
        for key in self._desk.touched_rows:
            owner = self._desk.rows.get(key)
            writes.append(self._book.remove(ROWS, key) if owner is None else self._book.put(ROWS, key, owner))
        return writes

    async def _commit(
        self, outlet: Outlet, events: list[dict[str, Any]], letters: list[Message], writes: list[Write]
    ) -> None:
        """Steps 3 to 5. Raises FencedError, LostError, KafkaError, RedisError; then nobody knows how far it came."""
        crash_point("source.2")
        batch = Staged(self._number + 1, self._place.pack(), writes)
        await self._book.stage(batch)
        crash_point("source.3")
        await outlet.send(batch.number, events, letters, self._place.offsets)
        crash_point("source.4")
        await self._book.apply(batch)
        crash_point("source.5")
        self._number, self._committed_at = batch.number, time.monotonic()
