"""Which worker has which name: its mark in `ingest`, under `instance:<name>`."""

from shoal.streams.store.keys import INGEST
from shoal.streams.store.store import Store


async def claim_instance(store: Store, name: str, mark: str) -> None:
    """The name is that worker's from now on."""
    await store.redis.hset(store.key(INGEST), f"instance:{name}", mark)


async def read_instance(store: Store, name: str) -> str | None:
    """The mark of the worker that has the name, None if none has."""
    found = await store.redis.hget(store.key(INGEST), f"instance:{name}")
    return None if found is None else str(found.decode())
