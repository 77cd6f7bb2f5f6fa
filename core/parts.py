"""What planning a part of a release returns. A table with one shard has one part, which is the whole of its records."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, NamedTuple

from shoal.core.measure.loss import LossSums
from shoal.core.release import Members, Part, Tally
from shoal.core.state import Change


class Summary(NamedTuple):
    """What the manifest has to know of a part: what it says of it, counts and sums to be added up, the largest breach.

    `part` is None in a plain table, whose manifest has `content` instead, the digest of all records. `max_breach` is
    over everybody who was ever published in the shard.
    """

    part: Part | None
    tally: Tally
    losses: LossSums
    max_breach: float
    content: str | None = None

    @property
    def is_full(self) -> bool:
        """Whether all records of the shard are there, not only those that changed."""
        return self.part is None or self.part.is_full

    def pack(self) -> tuple[Any, ...]:
        """Plain tuples, numbers and text, as msgpack writes them."""
        part = None if self.part is None else tuple(self.part)
        return part, astuple(self.tally), tuple(self.losses), self.max_breach, self.content

    @classmethod
    def unpack(cls, packed: Sequence[Any]) -> "Summary":
        """Read what `pack` has written."""
        part, tally, losses, max_breach, content = packed
        read = None if part is None else Part(*part)
        return cls(read, Tally(*tally), LossSums(*losses), max_breach, content)


@dataclass(frozen=True)
class PartPlan:
    """What a shard publishes in a release, the change this makes to its state and, private, who its rows are and whose
    cohorts stand behind them. In `change` the people who left are `departed`.

    `misrouted` has partition and offset of accepted events that came by another partition than their person's. With
    several shards it is empty, because their desks find those.
    """

    cells: tuple[bytes, ...]
    groups: tuple[bytes, ...]
    gone: tuple[bytes, ...]
    summary: Summary
    change: Change
    members: Members
    cohorts: Mapping[str, list[list[str]]] = field(repr=False)
    misrouted: tuple[tuple[int, int], ...] = ()

    @property
    def records(self) -> tuple[bytes, ...]:
        """All records in the order they are published in."""
        return self.cells + self.groups + self.gone
