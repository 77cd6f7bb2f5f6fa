"""How far a source is: the next offset of each partition, the looks at each table, and the sweeps still to be made."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec
from aiokafka import TopicPartition

from shoal.streams.source.census import Census
from shoal.streams.source.desk import Role

Ends = dict[TopicPartition, int]


class Stage(StrEnum):
    """What a source that was started anew does: learn whom Shoal knows, then read without a word up to where the topics
    ended, then tell what differs. Otherwise it would tell the whole history again, and releases would show it.
    """

    LEARNING = "learning"
    SILENT = "silent"
    TELLING = "telling"


@dataclass(slots=True)
class Place:
    """After a batch. A sweep waits until the offsets of its table are passed, and so does a silent source."""

    offsets: Ends = field(default_factory=dict)
    census: dict[Role, Census] = field(default_factory=lambda: {role: Census() for role in Role})
    sweeps: dict[Role, Ends] = field(default_factory=dict)
    stage: Stage = Stage.TELLING
    silent_until: Ends = field(default_factory=dict)
    seal: str = ""  # the fingerprint of the key with which the book is encrypted

    def due_sweeps(self) -> list[Role]:
        """The sweeps that nothing is waited for any more."""
        return [role for role, ends in self.sweeps.items() if self._has_passed(ends)]

    def has_caught_up(self) -> bool:
        """Whether a silent source may speak."""
        return self.stage is Stage.SILENT and not self.sweeps and self._has_passed(self.silent_until)

    def _has_passed(self, ends: Ends) -> bool:
        return all(self.offsets.get(partition, 0) >= end for partition, end in ends.items())

    def pack(self) -> bytes:
        """The inverse of `read_place`."""
        looks = {role: (one.epoch, one.identity, one.lsn, one.is_swept) for role, one in self.census.items()}
        sweeps = {role: _flat(ends) for role, ends in self.sweeps.items()}
        silent_until = _flat(self.silent_until)
        return msgspec.msgpack.encode((_flat(self.offsets), looks, sweeps, self.stage, silent_until, self.seal))


def read_place(raw: bytes) -> Place:
    """A place as `pack` wrote it."""
    offsets, looks, sweeps, stage, silent_until, seal = msgspec.msgpack.decode(raw)
    return Place(
        _ends(offsets),
        {Role(role): Census(*one) for role, one in looks.items()},
        {Role(role): _ends(ends) for role, ends in sweeps.items()},
        Stage(stage),
        _ends(silent_until),
        seal,
    )


def _flat(ends: Ends) -> list[tuple[str, int, int]]:
    return [(partition.topic, partition.partition, end) for partition, end in sorted(ends.items())]


def _ends(flat: Iterable[Any]) -> Ends:
    return {TopicPartition(topic, partition): end for topic, partition, end in flat}
