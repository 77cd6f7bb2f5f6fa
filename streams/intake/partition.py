"""One partition of the events topic in the memory of the worker that holds it.

What is here can always be had from Redis again: `load_partition` reads it, `Partition.fold` takes records into it, and
`commit` makes Redis agree, all or nothing. Whenever Redis does not agree, the memory is thrown away and loaded anew;
it is never repaired.

Who is whose. An id belongs to the partition that first brought it, and which one that was, should two partitions
bring it, is decided by the release of that window. Until then the id is *unsettled*: the offsets of its events are
kept, so that they can be dead-lettered if the id turns out to be at home elsewhere. The next window is open by then,
so an id stays unsettled into it, until the release is applied and the partition is told which ids were `foreign`.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol

from shoal.core.events.intake import Intake
from shoal.core.events.window import STATUS_AFTER, Delta, held_in, overlay
from shoal.core.policy.policy import Policy
from shoal.streams.intake.fast_decode import make_taker
from shoal.streams.store.encryption import PlainSeal, Seal
from shoal.streams.store.records import Mark, pack, pack_window, person_of, status_of, unpack
from shoal.streams.store.store import FencedError, LostError, Store, people_keys

WINDOW_KIND: Final = b"window"
PERSON_KIND: Final = b"person"
# A window's log is rewritten when it holds this many deltas more than twice its people.
_MOST_LOGGED: Final = 200_000
_ENTRY: Final = 10_000
_READ: Final = 16


class Record(Protocol):
    """What ingest needs of aiokafka's ConsumerRecord."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


class Batch(NamedTuple):
    """Records of one partition, folded, on their way to Redis."""

    before: int
    after: int
    accepted: int
    marks: list[bytes]
    rejected: dict[int, Record]
    entries: list[bytes]
    """For the window's log; an empty one first says that the rest replaces what is there."""


class Reply(NamedTuple):
    """What Redis said to a batch it took."""

    applied: int
    passed: bool
    waiting: int


class MovedError(Exception):
    """Redis is not where this partition's memory is; the memory has to be loaded anew."""


class Partition:
    """The roster, the open window and the place of one partition."""

    def __init__(
        self, number: int, token: str, offset: int, window: int, settled: int, barrier: int | None, intake: Intake
    ) -> None:
        self.number, self.token = number, token
        self.offset = offset  # the next record to take
        self.window = window  # the release that the open window is for
        self.settled = settled  # the last release whose homes this roster knows
        self.barrier = barrier  # where the open window ends, if that is known yet
        self.intake = intake
        self._take = make_taker(intake).take
        self.logged = 0  # how many deltas the window's log holds, the replaced ones among them
        self.rejected: dict[int, Record] = {}  # what the marks in Redis stand for, as far as it is in memory

    def split(self, records: Sequence[Record], position: int) -> tuple[Sequence[Record], Sequence[Record], int]:
        """Records up to the barrier, those after it, and the offset that the first part leads to."""
        if self.barrier is None or position <= self.barrier:
            return records, (), position
        cut = bisect_left(records, self.barrier, key=_offset)
        return records[:cut], records[cut:], self.barrier

    def fold(self, records: Sequence[Record], after: int, seal: Seal) -> Batch:
        """Step 2: take records into the open window, and pack what they changed."""
        take, already = self._take, self.intake.accepted
        marks: list[bytes] = []
        rejected: dict[int, Record] = {}
        for record in records:
            refused = take(record.value, record.headers, record.offset)
            if refused is not None:
                marks.append(pack(Mark(record.offset, str(refused.reason), refused.field, refused.op)))
                rejected[record.offset] = record
        return Batch(self.offset, after, self.intake.accepted - already, marks, rejected, self._changes(seal))

    def _changes(self, seal: Seal) -> list[bytes]:
        """Everyone whose delta changed, as one entry of the window's log; the whole window, should that be shorter."""
        window, touched = self.intake.window, self.intake.drain()
        self.logged += len(touched)
        if self.logged <= _MOST_LOGGED + 2 * len(window):
            return [self._entry(seal, touched)] if touched else []
        self.logged = len(window)
        people = iter(window.items())
        parts = iter(lambda: dict(islice(people, _ENTRY)), {})
        return [b"", *(self._entry(seal, part) for part in parts)]

    def _entry(self, seal: Seal, deltas: dict[str, Delta]) -> bytes:
        return seal.close(WINDOW_KIND, _place(self.window, self.number), "", pack_window(deltas))

    async def commit(self, store: Store, batch: Batch) -> Reply:
        """Step 3: one script that takes all of the batch or nothing.

        Raises MovedError, FencedError or LostError when it took nothing, RedisError when nobody knows; the memory is
        then ahead of Redis and has to be thrown away.
        """
        what = (self.number, self.token, batch.before, self.window, batch.after, batch.accepted)
        rest: tuple[int | bytes, ...] = (len(batch.marks), *batch.marks, *batch.entries)
        answer = await store.run("commit", *what, self.settled, *rest)
        if answer[0] == b"unsettled":
            await self.settle(store, int(answer[1]))
            answer = await store.run("commit", *what, self.settled, *rest)
        if answer[0] != b"ok":
            refusal = _REFUSALS.get(answer[0], MovedError)
            raise refusal
        _, applied, barrier, passed, waiting = answer
        self.offset = batch.after
        self.barrier = int(barrier) if barrier else None
        self.rejected.update(batch.rejected)
        if passed:
            self.window += 1
            self.barrier = None
            # Whom the window brought is unsettled in the next one, until this one's release is applied.
            self.intake.without_home = {person for person, delta in self.intake.window.items() if delta[3] is not None}
            self.intake.cut()
            self.logged = 0
        return Reply(int(applied), bool(passed), int(waiting))

    async def settle(self, store: Store, applied: int) -> None:
        """Learn which ids turned out to be at home elsewhere, up to release `applied`."""
        foreign: list[str] = []
        async for chunk in store.scan(f"foreign:{applied}:{self.number}"):
            foreign += [store.seal.open(PERSON_KIND, field, value)[0] for field, value in chunk]
        for person in foreign:
            self.intake.forget(person)
        self.intake.without_home = set()
        self.settled = applied


async def load_partition(store: Store, number: int, token: str, policy: Policy) -> Partition:
    """Read a claimed partition back: where it stands, who is known in it, and its open window.

    The windows are read before the people: a release may be applied meanwhile, which moves what it says from a window
    to the people and then deletes the window. Raises FencedError if the token is not the stored one, LostError if
    there is none.
    """
    known = await store.redis.hmget(store.key("ingest"), [f"token:{number}", f"offset:{number}", f"window:{number}"])
    if known[0] is None or known[1] is None or known[2] is None:
        raise LostError
    if known[0].decode() != token:
        raise FencedError
    offset, window = int(known[1]), int(known[2])
    deltas = await read_window(store, window, number)
    before = await read_window(store, window - 1, number)
    applied_raw = await store.redis.hget(store.key("meta"), "applied")
    if applied_raw is None:
        raise LostError
    applied = int(applied_raw)
    roster = await _read_roster(store, number)
    permanent = policy.sensitive.permanent
    held = await _read_held(store, number) if permanent else {}
    unsettled: set[str] = set()
    if applied < window - 1:
        held.update(_held_after(before, permanent))
        roster.update((person, STATUS_AFTER[delta[0]]) for person, delta in before.items())
        unsettled = {person for person, delta in before.items() if delta[3] is not None}
    roster.update((person, STATUS_AFTER[delta[0]]) for person, delta in deltas.items())
    frozen = await store.redis.hmget(store.key("barrier"), ["release", f"mark:{number}"])
    barrier = int(frozen[1]) if frozen[0] is not None and int(frozen[0]) == window and frozen[1] is not None else None
    held.update(_held_after(deltas, permanent))
    intake = Intake(policy, roster, deltas, held=held)
    intake.without_home = unsettled
    part = Partition(number, token, offset, window, applied, barrier, intake)
    part.logged = len(deltas)
    return part


async def read_window(store: Store, window: int, partition: int) -> dict[str, Delta]:
    """What one partition's part of a window comes to: its log, later entries over earlier ones."""
    found: dict[str, Delta] = {}
    key, place, at = store.key(f"window:{window}:{partition}"), _place(window, partition), 0
    while entries := await store.redis.lrange(key, at, at + _READ - 1):
        for entry in entries:
            overlay(found, unpack(store.seal.open(WINDOW_KIND, place, entry)[1]))
        at += len(entries)
    return found


async def _read_roster(store: Store, partition: int) -> dict[str, int]:
    roster: dict[str, int] = {}
    opened = store.seal.open
    is_plain = type(store.seal) is PlainSeal
    async for found in store.hashes(people_keys(partition)):
        if is_plain:
            roster.update((field.decode(), status_of(value)) for field, value in found.items())
            continue
        for field, value in found.items():
            person, raw = opened(PERSON_KIND, field, value)
            roster[person] = status_of(raw)
    return roster


async def _read_held(store: Store, partition: int) -> dict[str, tuple[int, ...]]:
    """Who holds which permanent values."""
    held: dict[str, tuple[int, ...]] = {}
    async for found in store.hashes(people_keys(partition)):
        for field, value in found.items():
            person, raw = store.seal.open(PERSON_KIND, field, value)
            if values := person_of(raw).held:
                held[person] = values
    return held


def _held_after(deltas: Mapping[str, Delta], permanent: frozenset[int]) -> dict[str, tuple[int, ...]]:
    """Who holds which permanent values after a window, as far as it says."""
    found = ((person, held_in(delta[2], permanent)) for person, delta in deltas.items()) if permanent else ()
    return {person: values for person, values in found if values}


def _place(window: int, partition: int) -> bytes:
    """What an entry of a window's log is bound to: it is of no other window and no other partition."""
    return f"{window}:{partition}".encode()


def _offset(record: Record) -> int:
    return record.offset


_REFUSALS: Final[dict[bytes, type[Exception]]] = {b"lost": LostError, b"fenced": FencedError}
