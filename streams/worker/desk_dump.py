"""The dump of a desk that cannot gather: the windows of its bucket, and the records of the people they are about.

While there are no cuts, the owner of shard 0 makes them from all buckets. If that fails, its dump has all buckets.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from shoal.core.events.window import Delta
from shoal.core.shards.desk import Histories, Resident
from shoal.core.shards.moves import Deltas, ShardWindow
from shoal.core.stored import write_person
from shoal.streams.store.coordination import read_shard_records
from shoal.streams.store.moves import parts_of, read_bucket, read_everybody, read_histories, read_known
from shoal.streams.worker.dump_source import DumpSource, portions
from shoal.streams.worker.dumped_desk import BOUND, DELTAS, RESIDENTS, VALUES, DeskHead
from shoal.streams.worker.dumped_shard import PLACES, Place

_Found = tuple[dict[str, Resident], dict[int, dict[str, Delta]]]


class DeskReading:
    """Everything that a desk folds."""

    def __init__(self, source: DumpSource) -> None:
        self._source = source
        self.people = 0  # of the window

    async def parts(self) -> Iterator[Any]:
        """The parts of the file, in their order."""
        source, store = self._source, self._source.store
        policies, before = await source.policies()
        residents, deltas = await self._found()
        has_bonds = bool(before.sensitive.permanent)
        histories = await read_histories(store, residents, has_bonds=has_bonds)
        about = {handle for here in deltas.values() for handle in here}
        self.people = len(about)
        places = await source.places(about)
        head = DeskHead(source.course.number, source.number, policies, source.course.cuts)

        return desk_parts(head, residents, deltas, histories, places)

    async def _found(self) -> _Found:
        """Who is known, and what the window says; as the owner reads it."""
        source = self._source
        store, partitions, course = source.store, source.partitions, source.course
        if course.cuts is None:
            return await self._everything()
        deltas = await read_bucket(store, course.number, partitions, source.number)
        records, has_cuts = await read_shard_records(store), bool(course.cuts)
        return await read_known(store, records, deltas, partitions, source.number, has_cuts=has_cuts), deltas

    async def _everything(self) -> _Found:
        """All buckets, from which the cuts are made."""
        source = self._source
        store, partitions = source.store, source.partitions
        deltas: dict[int, dict[str, Delta]] = {}
        for bucket in range(store.shards):
            for partition, here in (await read_bucket(store, source.course.number, partitions, bucket)).items():
                deltas.setdefault(partition, {}).update(here)
        return await read_everybody(store, 0, partitions), deltas


def desk_parts(
    head: DeskHead,
    residents: Mapping[str, Resident],
    deltas: Deltas,
    histories: Histories,
    places: Mapping[str, Sequence[Place]],
) -> Iterator[Any]:
    """The parts of the file. Of the shards' histories it has what these people's records name."""
    yield tuple(head)
    records = ((handle, (one.shard, write_person(one.person))) for handle, one in residents.items())
    yield from portions(RESIDENTS, records)
    for piece in parts_of(ShardWindow(deltas)):
        yield DELTAS, [piece.pack()]
    yield from portions(VALUES, _values(residents.values(), histories))
    bound = ((one.shard, handle, histories.bound(one.shard, handle)) for handle, one in residents.items())
    yield from portions(BOUND, (found for found in bound if found[2]))
    yield from portions(PLACES, places.items())


def _values(residents: Iterable[Resident], histories: Histories) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """What the signatures in these people's records stand for: shard, number, values."""
    named = {(one.shard, entry[1]) for one in residents for entry in one.person.entries if entry[1] >= 0}
    return ((shard, number, histories.values_of(shard, number)) for shard, number in sorted(named))
