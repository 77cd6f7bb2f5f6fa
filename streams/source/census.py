"""Complete snapshots of a captured table: which one is under way, and which rows it did not contain.

Every complete look at a table, a snapshot or a TRUNCATE, begins a new *epoch*, and every row that is seen from then on
belongs to it. When the look is complete, rows of an earlier epoch are not there any more. Only Debezium's own marks
make a snapshot complete: its last row of the table, or its last row of all tables. An incremental snapshot is never
complete.
"""

from dataclasses import dataclass

from shoal.streams.source.envelope import Snapshot
from shoal.streams.source.person import Held


@dataclass(slots=True)
class Census:
    """The looks at one table. `identity` names the last one, `lsn` is where it was taken, -1 if that is not known."""

    epoch: int = 0
    identity: str = ""
    lsn: int = -1
    is_swept: bool = True

    def see(self, snapshot: Snapshot) -> None:
        """A row of a snapshot: perhaps the first one."""
        if snapshot.identity != self.identity:
            text = snapshot.identity.partition("/")[0]
            self._begin(snapshot.identity, int(text) if text.isdigit() else -1)

    def truncate(self, lsn: int | None) -> None:
        """A TRUNCATE: a look that is complete and found nothing. It counts again if it comes again, since changes from
        before it may have come again, too.
        """
        self._begin("", -1 if lsn is None else lsn)

    def _begin(self, identity: str, lsn: int) -> None:
        self.epoch, self.identity, self.lsn, self.is_swept = self.epoch + 1, identity, lsn, False

    def is_missing(self, held: Held) -> bool:
        """Whether a row was not found by the complete look. One that was changed after it is there: with several
        partitions its change may have been read before the look began, and a TRUNCATE may come again.
        """
        return held.epoch < self.epoch and not (self.lsn >= 0 and held.lsn is not None and held.lsn > self.lsn)
