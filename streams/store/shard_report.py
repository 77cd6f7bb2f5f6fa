"""What a shard reports when it is planned: what the coordinator needs to know, and nothing about people."""

from typing import NamedTuple

from shoal.core.parts import Summary
from shoal.streams.store.records import Counts, pack, unpack


class ShardReport(NamedTuple):
    """What the manifest says of a part, the engine's own record of the shard, packed, and how many records it has, with
    their digest (state_digest.py).
    """

    summary: Summary
    state: bytes
    counts: Counts
    digest: bytes

    def pack(self) -> bytes:
        return pack((self.summary.pack(), self.state, tuple(self.counts), self.digest))

    @classmethod
    def unpack(cls, packed: bytes) -> "ShardReport":
        summary, state, counts, digest = unpack(packed)
        return cls(Summary.unpack(summary), state, Counts(*counts), digest)
