"""A shard: the region of the quasi-identifier space below which one tree grows, apart from those of other shards."""

from typing import Any, NamedTuple

Box = tuple[tuple[Any, Any], ...]  # a region: the run [low, high) that it covers in each attribute


class Shard(NamedTuple):
    """One of a table's shards. It has no box until the cuts are made, and until then nobody in it is published."""

    number: int
    box: Box | None
