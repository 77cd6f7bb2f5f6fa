"""What the owner of a shard writes to Redis, under its token: gathered moves, staged changes, its report, its part.

Until a release is sealed, every write names the digest of the vector that it was made for, and is refused under any
other. What a former owner or an owner of another vector left behind is thrown away before the first write.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any

from shoal.streams.faults import crash_point
from shoal.streams.store.keys import GONE, STRAYS, staged_key
from shoal.streams.store.records import CHUNK, Chunk
from shoal.streams.store.release_log import DisturbedError
from shoal.streams.store.store import Store
from shoal.streams.thread import ahead

_AT_ONCE = 4
_KEYS_AT_ONCE = 32
_ELEMENTS = 4  # of a desk, for one script; each has some thousand people


class ShardLog:
    """The writes of one shard's owner. Each raises FencedError if the shard has another owner, LostError if Redis does
    not know the table, and DisturbedError if the release is not, or not any more, at this step of this vector.
    """

    def __init__(self, store: Store, shard: int, token: str) -> None:
        self._store, self.shard, self.token = store, shard, token

    async def tell_cuts(self, release: int, vector: str, cuts: bytes) -> None:
        """Step 3, while there are no cuts: those that were made, or that there are none yet. Shard 0's owner tells."""
        await self._write("cut", release, vector, cuts)

    async def gather(
        self, release: int, vector: str, moves: Mapping[int, Sequence[bytes]], strays: Sequence[bytes]
    ) -> None:
        """Step 3: what this bucket's desk found, by shard; all shards are there, also those without anything."""
        targets: list[tuple[int | str, Sequence[bytes]]] = [*moves.items(), (STRAYS, strays)]

        async def write(target: int | str, elements: Sequence[bytes]) -> None:
            pieces = [elements[start : start + _ELEMENTS] for start in range(0, len(elements), _ELEMENTS)]
            for place, piece in enumerate(pieces or [()]):
                await self._write("gather", release, vector, target, int(place == 0), *piece)
            crash_point("shards.3.part")

        await _all(write(*one) for one in targets)
        told = [part for target, elements in targets for part in (target, len(elements))]
        await self._write("gathered", release, vector, *told)

    async def regather(self, release: int, vector: str, bucket: int) -> None:
        """What a desk wrote is not all there: Redis was set back. The desk is to write it again."""
        await self._write("regather", release, vector, bucket)

    async def stage(self, release: int, vector: str, chunks: Iterable[Chunk]) -> int:
        """Step 4: everything that the release changes in this shard; returns in how many pieces.

        `chunks` are read in a thread: what comes next is packed while Redis writes.
        """
        await self._write("shard_unstage", release, vector)
        count = 0

        async def write(number: int, piece: Sequence[Chunk]) -> None:
            args: list[str | int | bytes] = []
            for chunk in piece:
                args += (chunk.key, len(chunk.fields), *chunk.fields)
            await self._write("shard_stage", release, vector, number, *args)
            crash_point("shards.4.part")

        async for batch in ahead(_pieces(chunks), _AT_ONCE):
            await _all(write(count + place, piece) for place, piece in enumerate(batch))
            count += len(batch)
        return count

    async def report(self, release: int, vector: str, chunks: int, report: bytes) -> None:
        """Step 4, at its end."""
        await self._write("shard_report", release, vector, chunks, report)

    async def fail(self, release: int, vector: str, why: str) -> None:
        """This shard cannot be gathered or planned. `why` says nothing about people."""
        await self._write("shard_fail", release, vector, why)

    async def note_part(self, release: int, first: int, end: int) -> None:
        """Step 7: the part is committed, from one offset to before the other."""
        await self._write("part", release, first, end)

    async def apply(self, release: int) -> None:
        """Step 9: the redo log of this shard into the current state, but for what the shard takes away."""
        staged = await self._store.redis.smembers(self._store.key(staged_key(release, "keys", self.shard)))
        keys = sorted(key for key in staged if not key.startswith(GONE.encode()))
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[start : start + _KEYS_AT_ONCE]
            while await self._write("shard_apply", release, *some) == "more":
                crash_point("shards.9.part")
            crash_point("shards.9.part")
        await self._write("shard_applied", release)

    async def _write(self, script: str, *args: str | bytes | int) -> str:
        word = await self._store.order(script, self.shard, self.token, *args)
        if word not in ("ok", "more"):
            raise DisturbedError
        return word


async def _all(writes: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Wait until all writes have ended, then raise the first error: no write goes on after this returns."""
    for outcome in await asyncio.gather(*writes, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _pieces(chunks: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    """Chunks for one script each, of some thousand fields and of some keys."""
    piece: list[Chunk] = []
    size = 0
    for chunk in chunks:
        piece.append(chunk)
        size += len(chunk.fields)
        if size >= 2 * CHUNK or len(piece) == _KEYS_AT_ONCE:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
