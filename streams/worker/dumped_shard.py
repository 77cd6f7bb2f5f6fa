"""The file of `shoal shard dump`: one shard and its moves of a frozen release, and planning them without any service.

It is an encrypted file (streams/snapshot/encrypted_file.py). The first part describes the dump. The others are (kind of
record, records) of the state, ("moves", a piece of what the desks found), and ("places", where the events of these
people are). The last one is the number of parts.

Planning is pure. So the file fails as the shard did, on any machine with this version and the secret. It can also be
planned with fewer people: the search adds people until planning fails, and names the last one added by the places of
their events.
"""

import asyncio
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Final, NamedTuple

from shoal.core.cells.shard import Shard
from shoal.core.overlap.external import ExternalGroup
from shoal.core.randomness import KeyedByHandle
from shoal.core.shards.change import plan_part_change
from shoal.core.shards.cuts import Cuts
from shoal.core.shards.moves import ShardWindow, joined
from shoal.core.shards.part import PartPlan, plan_part
from shoal.core.state import READERS, RECORDS, State
from shoal.streams.errors import InputError
from shoal.streams.files.policy_record import unpack_policy
from shoal.streams.settings import Settings
from shoal.streams.snapshot.encrypted_file import EncryptedFile
from shoal.streams.snapshot.snapshot_file import secrets_of
from shoal.streams.store.records import meta_of, unpack
from shoal.streams.worker.culprit import Culprit, fails, last_straw, records_of
from shoal.streams.worker.dumped_desk import DESK, GatheredDump, gather_dump
from shoal.streams.worker.plan_failure import frames_of

DUMP: Final = "dump"  # on the cover: release and shard
MOVES: Final = "moves"
PLACES: Final = "places"

Place = tuple[int, int]  # partition and offset of a record


class DumpHead(NamedTuple):
    """The contents of a dump: the release, the shard, the packed policies (the second takes over unless it is ""), the
    cuts, the shard's own record, packed, whether the release before had these cuts, and the places of the records of
    other publishers' groups.
    """

    release: int
    shard: int
    policies: tuple[str, str]
    cuts: bytes | None
    state: bytes | None
    had_cuts: bool
    external: tuple[Place, ...]


class Planned(NamedTuple):
    """The result of planning a dump: the digest of the part, or the kind of error and where it was raised."""

    table: str
    release: int
    shard: int
    people: int
    digest: str | None
    error: str | None = None
    frames: tuple[str, ...] = ()
    culprit: Culprit | None = None


def plan_dump(settings: Settings, path: Path) -> Planned | GatheredDump:
    """Plan the dump of a shard, or gather from that of a desk. If that raises an error, look for the record that causes
    it.

    Raises InputError if the file is damaged, is no dump, or is under another secret. A failure takes some twenty plans.
    """
    file = EncryptedFile(path)
    if DUMP not in file.cover and DESK not in file.cover:
        raise InputError(f"{path} is not a file that `shoal shard dump` writes")
    parts = [unpack(part) for part in file.parts(secrets_of(settings))]
    if parts.pop() != len(parts) + 1:
        raise file.damaged()
    if DESK in file.cover:
        return gather_dump(settings, str(file.cover["table"]), parts)
    return _plan(_Dump(settings, file, parts))


def _plan(dump: "_Dump") -> Planned:
    found = Planned(dump.table, dump.head.release, dump.head.shard, len(dump.people), None)
    try:
        return found._replace(digest=dump.plan(dump.window).summary.part.digest.hex())
    except Exception as error:  # noqa: BLE001 - any error is the result to show
        frames, kind = tuple(frames_of(error)), type(error).__name__
    return found._replace(error=kind, frames=frames, culprit=asyncio.run(_culprit(dump)))


class _Dump:
    """A file that was read, and its shard."""

    def __init__(self, settings: Settings, file: EncryptedFile, parts: Sequence[Any]) -> None:
        self.table, self.head = str(file.cover["table"]), DumpHead(*parts[0])
        before, after = (unpack_policy(packed) if packed else None for packed in self.head.policies)
        if before is None:
            raise file.damaged()
        self.after, number = after, self.head.shard
        cuts = None if self.head.cuts is None else Cuts.read(before, unpack(self.head.cuts))
        self.shard = Shard(number, None) if cuts is None else cuts.shard(number)
        kinds: dict[str, list[Any]] = {}
        for kind, records in parts[1:]:
            kinds.setdefault(kind, []).extend(records)
        self.window = joined(list(map(ShardWindow.unpack, kinds.get(MOVES, ()))), ())
        groups = [group for piece in kinds.get(MOVES, ()) for group in ShardWindow.unpack(piece).externals]
        self.window = self.window._replace(externals=tuple(groups))
        self.places: Mapping[str, Sequence[Place]] = dict(kinds.get(PLACES, ()))
        keyed = KeyedByHandle(settings.key_bytes, self.table)
        state, was = self.head.state, self.shard if self.head.had_cuts else Shard(number, None)
        if state is None:
            self._state = State.empty(before, keyed, KeyedByHandle, was)
            return
        found = {name: [(identity, READERS[name](raw)) for identity, raw in kinds.get(name, ())] for name in RECORDS}
        self._state = State.load(before, keyed, meta_of(state), KeyedByHandle, was, **found)

    @property
    def people(self) -> list[str]:
        """Everybody in this shard's window, in the same order in every run."""
        window = self.window
        deltas = (handle for here in window.deltas.values() for handle in here)
        return sorted({*deltas, *window.departures, *window.lost, *window.arrivals})

    def plan(self, window: ShardWindow) -> PartPlan:
        """The part that this window makes. Does not change the state."""
        state, number = self._state, self.head.release
        if self.after is None:
            return plan_part(state, window, state.policy, number, self.shard)
        return plan_part_change(state, window, self.after, number, self.shard)

    def only(self, people: Set[str], externals: Sequence[ExternalGroup]) -> ShardWindow:
        """The window of some of these people and groups."""
        window = self.window
        return ShardWindow(
            {number: {one: here[one] for one in here if one in people} for number, here in window.deltas.items()},
            tuple(one for one in window.departures if one in people),
            window.lost & people,
            {one: traveller for one, traveller in window.arrivals.items() if one in people},
            externals,
        )


async def _culprit(dump: _Dump) -> Culprit | None:
    """The records of one person, or of one group of another publisher, without whom planning does not fail."""
    externals, people = dump.window.externals, dump.people
    nobody: frozenset[str] = frozenset()

    def plan(window: ShardWindow) -> None:
        dump.plan(window)

    if await fails(plan, dump.only(nobody, ())):
        return None
    if await fails(plan, dump.only(nobody, externals)):
        last = await last_straw(len(externals), lambda count: fails(plan, dump.only(nobody, externals[:count])))
        partition, offset = dump.head.external[last]
        return Culprit("external", partition, [offset])
    last = await last_straw(len(people), lambda count: fails(plan, dump.only(frozenset(people[:count]), externals)))
    return records_of(dump.places.get(people[last], ()))
