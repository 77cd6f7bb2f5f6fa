"""What a desk asks of shards in files: who lives where, and what the numbers in their records stand for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from shoal.core.events.window import Delta
from shoal.core.person import AWAY
from shoal.core.shards.desk import Resident
from shoal.streams.files.shards.handles import pack_handles
from shoal.streams.files.shards.shard_file import ShardFile

WindowDeltas = dict[int, dict[str, Delta]]  # by partition, in their order


class FileHistories:
    """What the numbers in the shards' files stand for."""

    def __init__(self, mapped: Sequence[ShardFile]) -> None:
        self._states = [shard.state for shard in mapped]
        self._bound: dict[int, dict[str, set[int]]] = {}

    def values_of(self, shard: int, signature: int) -> tuple[int, ...]:
        return self._states[shard].signatures.sets[signature]

    def bound(self, shard: int, handle: str) -> tuple[int, ...]:
        if shard not in self._bound:
            found = self._bound[shard] = {}
            for bond in self._states[shard].bonds.bonds.values():
                for owner in bond.owners:
                    found.setdefault(owner, set()).add(bond.value)
        return tuple(sorted(self._bound[shard].get(handle, ())))


def new_deltas(everybody: Mapping[str, Resident], deltas: WindowDeltas) -> Iterator[tuple[str, Delta]]:
    """The deltas of new people: those of the first partition by which each of them came."""
    for partition, here in deltas.items():
        earlier = [there for other, there in deltas.items() if other < partition]
        for handle, delta in here.items():
            if handle not in everybody and not any(handle in there for there in earlier):
                yield handle, delta


def take_out(here: dict[str, Delta], asked: Iterable[str]) -> dict[str, Delta]:
    """Takes the deltas about these people out."""
    return {handle: here.pop(handle) for handle in asked if handle in here}


def residents_in(mapped: Sequence[ShardFile], asked: Sequence[str] | None = None) -> Iterator[tuple[str, Resident]]:
    """The records of these people, or of everybody."""
    wanted = None if asked is None else pack_handles(asked)
    for number, shard in enumerate(mapped):
        rows = shard.state.people.here()
        if wanted is not None:
            found = shard.handles.find(wanted)
            found = found[found >= 0]
            rows = found[shard.state.people.status[found] != AWAY]
        for handle, person in shard.state.persons(rows):
            yield handle, Resident(number, person)
