"""One partition of the events topic in the memory of the worker that owns it.

Everything here can be had from Redis again: `load_partition` reads it, `Partition.take` takes records into it, and
`commit` makes Redis agree, all or nothing. Whenever Redis does not agree, the memory is thrown away and loaded anew;
it is never repaired.

Homes. An id belongs to the partition that first brought it. Should two partitions bring it in one window, the release
of that window decides. Until then the id's home is not known: the offsets of its events are kept, so that they can
become dead letters if the id turns out to be at home elsewhere. The next window is open by then, so the home stays
unknown into it, until the release is applied and the partition learns which ids were `foreign`.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from shoal.core.events.event import Reason, Reject
from shoal.core.events.intake import Intake
from shoal.core.events.window import ERASED, KIND, OFFSETS, STATUS_AFTER, VALUES, Delta, held_in
from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed
from shoal.streams.intake.taker import make_taker
from shoal.streams.kafka.record import Record
from shoal.streams.store.encryption import Cipher
from shoal.streams.store.records import note_of, pack
from shoal.streams.store.skipped import read_skipped
from shoal.streams.store.store import Store
from shoal.streams.store.window_log import (
    REPLACE,
    Committed,
    HomesUnknown,
    MovedError,
    by_bucket,
    commit_batch,
    pack_changes,
    read_applied,
    read_barrier,
    read_foreign,
    read_held,
    read_place,
    read_roster,
    read_window,
)

# A window's log is rewritten when it has this many deltas more than twice its people.
_MOST_LOGGED: Final = 200_000
_DELTAS_AN_ELEMENT: Final = 10_000


class Batch(NamedTuple):
    """Records of one partition, judged, on their way to Redis."""

    before: int
    after: int
    accepted: int
    rejects: list[bytes]
    rejected: dict[int, Record]
    changes: list[bytes]
    """Elements for the window's log; REPLACE first says that the others replace the log."""
    counts: tuple[int, ...]
    """How many of these elements are for each bucket."""


class Partition:
    """The roster, the open window and the place of one partition."""

    def __init__(
        self,
        number: int,
        token: str,
        intake: Intake,
        *,
        offset: int = 0,
        window: int = 1,
        homes_known: int = 0,
        barrier: int | None = None,
    ) -> None:
        self.number, self.token, self.intake = number, token, intake
        self.offset = offset  # the next record to take
        self.window = window  # the release that the open window is for
        self.homes_known = homes_known  # the last release whose homes this roster knows
        self.barrier = barrier  # where the open window ends, if that is decided
        self._take = make_taker(intake).take
        self.skipped: frozenset[int] = frozenset()  # offsets of records that an operator has left out
        self.logged = 0  # how many deltas the window's log has, the replaced ones among them
        self.is_held = False  # its next window is for workers under the policy that takes over
        self.rejected: dict[int, Record] = {}  # the records of the rejects in Redis, as far as they are in memory

    def split(self, records: Sequence[Record], position: int) -> tuple[Sequence[Record], Sequence[Record], int]:
        """Records up to the barrier, those after it, and the offset that the first part leads to."""
        if self.barrier is None or position <= self.barrier:
            return records, (), position
        cut = bisect_left(records, self.barrier, key=_offset)
        return records[:cut], records[cut:], self.barrier

    def take(self, records: Sequence[Record], after: int, cipher: Cipher, buckets: int = 1) -> Batch:
        """Step 2: take records into the open window, and pack what they changed."""
        take, already = self._take, self.intake.accepted
        rejects: list[bytes] = []
        rejected: dict[int, Record] = {}
        for record in records:
            if record.offset in self.skipped:
                reject: Reject | None = Reject(Reason.SKIPPED)
            else:
                reject = take(record.value, record.headers, record.offset)
            if reject is not None:
                rejects.append(pack(note_of(record.offset, reject)))
                rejected[record.offset] = record
        changes, counts = self._changes(cipher, buckets)
        return Batch(self.offset, after, self.intake.accepted - already, rejects, rejected, changes, counts)

    def _changes(self, cipher: Cipher, buckets: int) -> tuple[list[bytes], tuple[int, ...]]:
        """Everybody whose delta changed, as one element of the log of each bucket; the whole window, should
        that be shorter.
        """
        window, touched = self.intake.window, self.intake.drain()
        self.logged += len(touched)
        replaces = self.logged > _MOST_LOGGED + 2 * len(window)
        if replaces:
            touched, self.logged = window, len(window)
        begin = [REPLACE] if replaces else []
        logs = [
            self._elements(cipher, some, whole=not replaces, bucket=number)
            for number, some in enumerate(by_bucket(touched, buckets))
        ]
        return begin + [element for log in logs for element in log], tuple(map(len, logs))

    def _elements(self, cipher: Cipher, deltas: dict[str, Delta], *, whole: bool, bucket: int) -> list[bytes]:
        if whole:
            return [pack_changes(cipher, self.window, self.number, deltas, bucket)] if deltas else []
        people = iter(deltas.items())
        parts = iter(lambda: dict(islice(people, _DELTAS_AN_ELEMENT)), {})
        return [pack_changes(cipher, self.window, self.number, part, bucket) for part in parts]

    async def commit(self, store: Store, batch: Batch) -> Committed:
        """Step 3: one script that takes all of the batch, or nothing.

        Raises MovedError, FencedError or LostError when it took nothing, RedisError when nobody knows; the memory is
        then ahead of Redis and has to be thrown away.
        """
        answer = await self._commit(store, batch)
        if isinstance(answer, HomesUnknown):
            await self.learn_homes(store, answer.applied)
            answer = await self._commit(store, batch)
        if isinstance(answer, HomesUnknown):
            raise MovedError
        self.offset, self.barrier = batch.after, answer.barrier
        self.rejected.update(batch.rejected)
        if answer.passed:
            self.window += 1
            self.barrier, self.is_held = None, answer.is_held
            # The homes of people new in this window are not known until its release is applied.
            self.intake.without_home = _homeless(self.intake.window)
            self.intake.cut()
            self.logged = 0
        return answer

    async def _commit(self, store: Store, batch: Batch) -> Committed | HomesUnknown:
        return await commit_batch(
            store,
            self.number,
            self.token,
            window=self.window,
            before=batch.before,
            after=batch.after,
            accepted=batch.accepted,
            homes_known=self.homes_known,
            rejects=batch.rejects,
            changes=batch.changes,
            counts=batch.counts,
        )

    async def learn_homes(self, store: Store, applied: int) -> None:
        """Forget the ids that are at home elsewhere, as release `applied` found. After that every home is known."""
        for person in await read_foreign(store, applied, self.number):
            self.intake.forget(person)
        self.intake.without_home = set()
        self.homes_known = applied


async def load_partition(store: Store, number: int, token: str, policy: Policy, keyed: Keyed) -> Partition:
    """Read an owned partition back: where it stands, its open window, and everybody known in it.

    The windows are read before the people: a release may be applied meanwhile, which first writes a window's effect to
    the people and then deletes the window. Raises FencedError if the token is not the stored one, LostError if there is
    none.
    """
    offset, window = await read_place(store, number, token)
    deltas = await read_window(store, window, number)
    before = await read_window(store, window - 1, number)
    applied = await read_applied(store)
    roster = await read_roster(store, number)
    permanent = policy.sensitive.permanent
    held = await read_held(store, number) if permanent else {}
    is_before_open = applied < window - 1  # the window before is not a part of the people yet
    for part in (before, deltas) if is_before_open else (deltas,):
        for person in (person for person, delta in part.items() if delta[KIND] >= ERASED):
            held.pop(person, None)
        held.update(_held_after(part, permanent))
        roster.update((person, STATUS_AFTER[delta[KIND]]) for person, delta in part.items())
    intake = Intake(policy, roster, deltas, held=held, handle_of=keyed.handle)
    intake.without_home = _homeless(before) if is_before_open else set()
    barrier = await read_barrier(store, window, number)
    found = Partition(number, token, intake, offset=offset, window=window, homes_known=applied, barrier=barrier)
    found.logged = len(deltas)
    changing = await store.changing()
    found.is_held = changing is not None and changing < window
    found.skipped = (await read_skipped(store)).get(str(number), frozenset())
    return found


def _homeless(window: Mapping[str, Delta]) -> set[str]:
    """The people of a window whose home was not known when it began."""
    return {person for person, delta in window.items() if delta[OFFSETS] is not None}


def _held_after(deltas: Mapping[str, Delta], permanent: frozenset[int]) -> dict[str, tuple[int, ...]]:
    """The permanent values of the people of a window who hold some after it."""
    found = ((person, held_in(delta[VALUES], permanent)) for person, delta in deltas.items()) if permanent else ()
    return {person: values for person, values in found if values}


def _offset(record: Record) -> int:
    return record.offset
