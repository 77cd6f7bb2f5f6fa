"""What the other rooms need of a record that aiokafka has read."""

from collections.abc import Sequence
from typing import Protocol


class Record(Protocol):
    """A part of aiokafka's ConsumerRecord, and all that tests have to make up."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]
