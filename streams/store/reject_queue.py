"""The rejects of one source: rejected records that are not dead letters yet, in the order in which they came.

The *floor* of a source is the offset of the dead-letter topic behind which letters of that source may stand that are
not accounted for. It is kept beside the queue and only moves when letters are cleared from it.
"""

from typing import NamedTuple

from shoal.streams.errors import FencedError, LostError
from shoal.streams.store.keys import INGEST, TRIGGERS, rejects_key
from shoal.streams.store.store import Store


class Waiting(NamedTuple):
    """The first rejects, packed, and the floor."""

    notes: list[bytes]
    floor: int


class Reached(NamedTuple):
    """How far the source has been read: the next offset, and the release of its open window (0 for triggers)."""

    next_offset: int
    window: int


class Earlier(NamedTuple):
    """Letters that an earlier owner sent: no reject up to `offset` can come any more once `release` is applied."""

    offset: int
    release: int


class RejectQueue:
    """The queue of the source `label`, for the worker that owns it under `token`."""

    def __init__(self, store: Store, label: str, token: str) -> None:
        self._store, self._label, self._token = store, label, token

    async def first(self, limit: int) -> Waiting:
        """Up to `limit` rejects, with the floor of the same moment."""
        pipeline = self._store.redis.pipeline(transaction=True)
        pipeline.lrange(self._store.key(rejects_key(self._label)), 0, limit - 1)
        pipeline.hget(self._store.key(INGEST), f"floor:{self._label}")
        notes, floor = await pipeline.execute()
        return Waiting(list(notes), int(floor or 0))

    async def owned_floor(self) -> int:
        """The floor. Raises FencedError if the source has another owner, LostError if it has none."""
        names = [f"token:{self._label}", f"floor:{self._label}"]
        stored, floor = await self._store.redis.hmget(self._store.key(INGEST), names)
        if stored is None:
            raise LostError
        if stored.decode() != self._token:
            raise FencedError
        return int(floor or 0)

    async def reached(self) -> Reached:
        offset = "trigger" if self._label == TRIGGERS else f"offset:{self._label}"
        found = await self._store.redis.hmget(self._store.key(INGEST), [offset, f"window:{self._label}"])
        return Reached(*(int(value or 0) for value in found))

    async def clear(self, sent: list[bytes], floor: int, before: int, earlier: Earlier | None) -> str:
        """Ingest, step 5: the rejects `sent` are dead letters now, and the floor moves from `before` to `floor`.

        Answers `ok`; `kept` if the rejects are cleared and the floor has to stay, because of `earlier`; `moved` if
        Redis is not where this worker thinks. Raises FencedError, LostError.
        """
        ends = (sent[0], sent[-1])
        known: tuple[str, int] = ("", 0) if earlier is None else (str(earlier.offset), earlier.release)
        return await self._store.order("clear", self._label, self._token, len(sent), floor, before, *ends, *known)


async def has_rejects(store: Store, label: str) -> bool:
    """Whether anything of a source waits to become a dead letter."""
    return bool(await store.redis.exists(store.key(rejects_key(label))))
