"""What the shards of one worker share: a lock, the announced releases, and windows that two of them need."""

import asyncio
from typing import NamedTuple

from shoal.core.shards.moves import Deltas
from shoal.streams.kafka.sealed import Announcements
from shoal.streams.store.course import Course


class _Read(NamedTuple):
    """The window of a bucket, and what it was read for."""

    release: int
    vector: str
    deltas: Deltas


class Together:
    """What the shards of a worker share."""

    def __init__(self, announcements: Announcements) -> None:
        self.announcements = announcements
        self.planning = asyncio.Lock()
        """Held while a shard is planned: each worker plans one at a time."""
        self._windows: dict[int, _Read] = {}

    def keep(self, bucket: int, course: Course, deltas: Deltas) -> None:
        """Keep the window of a bucket until its desk needs it: the cuts are made of the same."""
        assert course.vector is not None
        self._windows[bucket] = _Read(course.number, course.vector, deltas)

    def kept(self, bucket: int, course: Course) -> Deltas | None:
        """The window of a bucket, if it was kept for this release and vector."""
        read = self._windows.get(bucket)
        return None if read is None or read[:2] != (course.number, course.vector) else read.deltas

    def drop(self, bucket: int) -> None:
        self._windows.pop(bucket, None)
