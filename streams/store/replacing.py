"""Putting other keys in the place of a table's own, all at once: what an upgrade does, and taking one back.

1. `fence`    every ownership is taken away, so that a worker that still runs is found out
2. beside     the new keys are written under names of their own, which nobody reads (`Store.beside`)
3. `replace`  one script: the old keys go, and the new ones take their names

Until step 3 the table is as it was, and whatever an earlier attempt left beside it is thrown away by the next.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, NamedTuple

from shoal.streams.errors import InputError
from shoal.streams.store.keys import BEGINNING, BESIDE, shape_of
from shoal.streams.store.store import Store

_NO_OWNER: Final = "none since the upgrade"
_ELEMENTS_AT_ONCE: Final = 8  # of a list; each may be some hundred kilobytes


class Piece(NamedTuple):
    """Some of what a key holds: (field, value) of a hash, elements of a list, members of a set."""

    key: str
    items: Sequence[Any]


async def fence(store: Store, release: int, engine: str = "") -> None:
    """Take every ownership of a table away and, if an engine is named, give it that one. Raises LostError, and
    InputError if `release` is not its last one.
    """
    if await store.order("fence", _NO_OWNER, release, engine) != "ok":
        raise _running(store)


async def replace(store: Store) -> None:
    """Step 3. Raises InputError if a worker has taken a part of the table since `fence`."""
    names = [name async for name in store.names()]
    coming = {name.removeprefix(BESIDE) for name in names if name.startswith(BESIDE)}
    going = sorted(set(names) - {BESIDE + name for name in coming})
    if await store.order("replace", _NO_OWNER, len(going), *going, *sorted(coming)) != "ok":
        raise _running(store)


def _running(store: Store) -> InputError:
    return InputError(f"a worker of table {store.table} is running: stop all of them, and run this again")


async def read_pieces(store: Store) -> AsyncIterator[Piece]:
    """Everything that Redis holds of a table, in pieces of some thousand items, while nobody writes."""
    for name in sorted({name async for name in store.names()}):
        if name.startswith(BESIDE) or name == BEGINNING:
            continue
        if shape_of(name) == "hash":
            async for found in store.scan(name):
                yield Piece(name, found)
        elif shape_of(name) == "set":
            yield Piece(name, sorted(await store.redis.smembers(store.key(name))))
        else:
            at = 0
            while elements := await store.redis.lrange(store.key(name), at, at + _ELEMENTS_AT_ONCE - 1):
                yield Piece(name, elements)
                at += len(elements)


async def write_piece(store: Store, piece: Piece) -> None:
    """The inverse; the pieces of a key in their order."""
    key, shape = store.key(piece.key), shape_of(piece.key)
    if not piece.items:
        return
    if shape == "hash":
        await store.redis.execute_command("HSET", key, *(part for pair in piece.items for part in pair))
    elif shape == "set":
        await store.redis.sadd(key, *piece.items)
    else:
        await store.redis.rpush(key, *piece.items)
