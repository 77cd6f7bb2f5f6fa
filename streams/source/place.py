"""How far a source is: the next offset of each partition, the looks at each table, and the sweeps still to be made."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiokafka import TopicPartition

from shoal.streams.source.census import Census
from shoal.streams.source.desk import Role

Ends = dict[TopicPartition, int]


@dataclass(slots=True)
class Place:
    """After a batch. A sweep waits until the offsets of its table are passed."""

    offsets: Ends = field(default_factory=dict)
    census: dict[Role, Census] = field(default_factory=lambda: {role: Census() for role in Role})
    sweeps: dict[Role, Ends] = field(default_factory=dict)

    def due_sweeps(self) -> list[Role]:
        """The sweeps that nothing is waited for any more."""
        return [
            role
            for role, ends in self.sweeps.items()
            if all(self.offsets.get(partition, 0) >= end for partition, end in ends.items())
        ]

    def pack(self) -> bytes:
        """The inverse of `read_place`."""
        looks = {role: (one.epoch, one.identity, one.lsn, one.is_swept) for role, one in self.census.items()}
        sweeps = {role: _flat(ends) for role, ends in self.sweeps.items()}
        return msgspec.msgpack.encode((_flat(self.offsets), looks, sweeps))


def read_place(raw: bytes) -> Place:
    """A place as `pack` wrote it."""
    offsets, looks, sweeps = msgspec.msgpack.decode(raw)
    return Place(
        _ends(offsets),
        {Role(role): Census(*one) for role, one in looks.items()},
        {Role(role): _ends(ends) for role, ends in sweeps.items()},
    )


def _flat(ends: Ends) -> list[tuple[str, int, int]]:
    return [(partition.topic, partition.partition, end) for partition, end in sorted(ends.items())]


def _ends(flat: Iterable[Any]) -> Ends:
    return {TopicPartition(topic, partition): end for topic, partition, end in flat}
