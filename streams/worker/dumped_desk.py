"""The file of a desk that cannot gather, and gathering from it without any service.

It is an encrypted file, as that of a shard is (`dumped_shard.py`). The first part describes the dump. The others are
("residents", people and their records), ("deltas", a piece of the window), ("values", shard, number and values of a
signature), ("bound", shard, person and permanent values), and ("places", where the events of these people are). The
last one is the number of parts.

Gathering is pure. So the file fails as the desk did, and the search adds people until it does.
"""

import asyncio
from collections.abc import Mapping, Sequence, Set
from hashlib import sha256
from typing import Any, Final, NamedTuple

from shoal.core.events.window import Delta
from shoal.core.randomness import KeyedByHandle
from shoal.core.shards.change import interim
from shoal.core.shards.cuts import Cuts, Sample
from shoal.core.shards.desk import Resident, gather, present
from shoal.core.shards.moves import ShardWindow, joined
from shoal.core.stored import read_person
from shoal.streams.errors import InputError
from shoal.streams.files.policy_record import unpack_policy
from shoal.streams.settings import Settings
from shoal.streams.store.records import pack, unpack
from shoal.streams.worker.culprit import Culprit, fails, last_straw, records_of
from shoal.streams.worker.plan_failure import frames_of

DESK: Final = "desk"  # on the cover: release and bucket
RESIDENTS: Final = "residents"
DELTAS: Final = "deltas"
VALUES: Final = "values"
BOUND: Final = "bound"


class DeskHead(NamedTuple):
    """The contents of a dump: the release, the bucket, the packed policies (the second takes over unless it is ""), and
    the cuts, packed: b"" if there are too few people for any, None if they are to be made from this file.
    """

    release: int
    bucket: int
    policies: tuple[str, str]
    cuts: bytes | None


class GatheredDump(NamedTuple):
    """The result of gathering from a dump: a digest of what the desk found, or the error and where it was raised."""

    table: str
    release: int
    desk: int
    people: int
    digest: str | None
    error: str | None = None
    frames: tuple[str, ...] = ()
    culprit: Culprit | None = None


def gather_dump(settings: Settings, table: str, parts: Sequence[Any]) -> GatheredDump:
    """Gather from the parts of a dump. If that raises an error, look for the record that causes it.

    Raises InputError if a policy of the file cannot be read. A failure takes some twenty runs.
    """
    desk = _Desk(settings, table, parts)
    found = GatheredDump(table, desk.head.release, desk.head.bucket, len(desk.people), None)
    try:
        return found._replace(digest=desk.run(None))
    except Exception as error:  # noqa: BLE001 - any error is the result to show
        frames, kind = tuple(frames_of(error)), type(error).__name__
    return found._replace(error=kind, frames=frames, culprit=asyncio.run(_culprit(desk)))


class _Desk:
    """A file that was read."""

    def __init__(self, settings: Settings, table: str, parts: Sequence[Any]) -> None:
        self.head = DeskHead(*parts[0])
        before, after = (unpack_policy(packed) if packed else None for packed in self.head.policies)
        if before is None:
            raise InputError("the policy in the dump cannot be read; dump the desk again")
        self._policy = before if after is None else interim(before, after)
        self._keyed = KeyedByHandle(settings.key_bytes, table)
        kinds: dict[str, list[Any]] = {}
        for kind, records in parts[1:]:
            kinds.setdefault(kind, []).extend(records)
        self._residents = {
            handle: Resident(shard, read_person(person)) for handle, (shard, person) in kinds.get(RESIDENTS, ())
        }
        self._deltas = joined(list(map(ShardWindow.unpack, kinds.get(DELTAS, ()))), ()).deltas
        self._values: dict[tuple[int, int], tuple[int, ...]]
        self._bound: dict[tuple[int, str], tuple[int, ...]]
        self._values = {(shard, number): values for shard, number, values in kinds.get(VALUES, ())}
        self._bound = {(shard, handle): values for shard, handle, values in kinds.get(BOUND, ())}
        self.places: Mapping[str, Sequence[tuple[int, int]]] = dict(kinds.get("places", ()))

    @property
    def people(self) -> list[str]:
        """Everybody in the window, in the same order in every run."""
        return sorted({handle for here in self._deltas.values() for handle in here})

    def run(self, people: Set[str] | None) -> str:
        """What the desk does with these people of the window, or with all of them; a digest of the result."""
        deltas: dict[int, dict[str, Delta]] = {
            number: {one: delta for one, delta in here.items() if people is None or one in people}
            for number, here in self._deltas.items()
        }
        policy, number = self._policy, self.head.release
        if self.head.cuts is None:
            sample = Sample(policy, self._keyed)
            sample.add(dict(present(policy, number, self._residents, deltas)).items())
            made = sample.cuts()
            return sha256(pack(None if made is None else made.record())).hexdigest()
        cuts = Cuts.read(policy, unpack(self.head.cuts)) if self.head.cuts else None
        found = gather(policy, cuts, number, self._residents, deltas, self)
        windows = [(shard, window.pack()) for shard, window in found.windows.items()]
        return sha256(pack((windows, found.misrouted))).hexdigest()

    def values_of(self, shard: int, signature: int) -> tuple[int, ...]:
        return self._values[shard, signature]

    def bound(self, shard: int, handle: str) -> tuple[int, ...]:
        return self._bound.get((shard, handle), ())


async def _culprit(desk: _Desk) -> Culprit | None:
    """The records of one person without whom gathering does not fail."""
    people = desk.people

    def run(some: Set[str]) -> None:
        desk.run(some)

    if await fails(run, frozenset()):
        return None
    last = await last_straw(len(people), lambda count: fails(run, frozenset(people[:count])))
    return records_of(desk.places.get(people[last], ()))
