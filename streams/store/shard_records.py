"""What lasts of the shards as a whole, in the key `shards`: each shard's record, counts and digest, and the cuts."""

from collections.abc import Mapping, Sequence

from shoal.core.cuts import Cuts
from shoal.streams.errors import LostError
from shoal.streams.store.keys import META, SHARDS_META
from shoal.streams.store.records import Counts, pack
from shoal.streams.store.store import Store


class ShardRecords:
    """The fields of `shards`, of the last release that is applied."""

    def __init__(self, fields: Mapping[bytes, bytes]) -> None:
        self._fields = fields

    def state(self, shard: int) -> bytes | None:
        """The engine's own record of a shard at the last sealed release, packed; None before the first."""
        return self._fields.get(f"state:{shard}".encode())

    def counts(self, shard: int) -> Counts:
        found = self._fields.get(f"counts:{shard}".encode())
        return Counts() if found is None else Counts(*map(int, found.split()))

    def digest(self, shard: int) -> bytes | None:
        """Of a shard's records (state_digest.py); None before the first release."""
        return self._fields.get(f"digest:{shard}".encode())

    @property
    def cuts(self) -> bytes | None:
        return self._fields.get(b"cuts")


async def read_shard_records(store: Store) -> ShardRecords:
    """Raises LostError if Redis knows nothing of the table."""
    pipeline = store.redis.pipeline(transaction=True)
    pipeline.exists(store.key(META))
    pipeline.hgetall(store.key(SHARDS_META))
    is_there, found = await pipeline.execute()
    if not is_there:
        raise LostError
    return ShardRecords(found)


def pack_cuts(cuts: Cuts | None) -> bytes | None:
    """The cuts as they are stored; None while there are none."""
    return None if cuts is None else pack(cuts.record())


def write_shard_records(
    states: Sequence[bytes], cuts: bytes | None, *, counts: Sequence[Counts], digests: Sequence[bytes] = ()
) -> dict[str, bytes]:
    """The fields of `shards`."""
    fields = {f"state:{shard}": state for shard, state in enumerate(states)}
    fields |= {f"counts:{shard}": str(one).encode() for shard, one in enumerate(counts)}
    fields |= {f"digest:{shard}": one for shard, one in enumerate(digests)}
    return fields if cuts is None else {**fields, "cuts": cuts}
