"""The desk: folds the window of some people over the records of the release before, and says which shards it concerns.

Ingest knows no shards, because an update of one attribute does not say where its person lives. So a desk takes all
deltas about the ids of one bucket, from all partitions, and the records of these people. If a person's folded record
lies in another shard than the old one, the person is a departure here and an arrival there. A person who goes there and
back in one window does not move, because only the folded record counts.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import NamedTuple, Protocol

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.cuts import Cuts
from shoal.core.events.window import DEREGISTERED, ERASED, KIND, OFFSETS, PRESENT, QID, STATUS_AFTER, Delta
from shoal.core.fold import after_delta
from shoal.core.person import Person, Qid
from shoal.core.policy.policy import Policy
from shoal.core.shards.moves import Deltas, ShardWindow, Traveller
from shoal.core.signatures.bonds import Bond
from shoal.core.signatures.signature import SignatureRecord
from shoal.core.signatures.trail import EVERYWHERE

FIRST = 0  # the shard in which everybody is until there are cuts


class Resident(NamedTuple):
    """Somebody as the release before left them: their shard, and their record as it is stored there."""

    shard: int
    person: Person


class Histories(Protocol):
    """What the numbers in a shard's records stand for; asked only about people who move."""

    def values_of(self, shard: int, signature: int) -> tuple[int, ...]:
        """The values of one of a shard's signatures."""
        ...

    def bound(self, shard: int, handle: str) -> tuple[int, ...]:
        """The permanent values for which somebody is or was in a clique of this shard, or came with from another."""
        ...


class RecordedHistories:
    """The same from the records of each shard: signatures by number, and bonds."""

    def __init__(
        self, signatures: Sequence[Mapping[int, SignatureRecord]], bonds: Sequence[Mapping[int, Bond]]
    ) -> None:
        self._signatures = signatures
        self._bound: list[dict[str, set[int]]] = []
        for here in bonds:
            found: dict[str, set[int]] = {}
            for bond in here.values():
                for owner in bond.owners:
                    found.setdefault(owner, set()).add(bond.value)
            self._bound.append(found)

    def values_of(self, shard: int, signature: int) -> tuple[int, ...]:
        return self._signatures[shard][signature].values

    def bound(self, shard: int, handle: str) -> tuple[int, ...]:
        return tuple(sorted(self._bound[shard].get(handle, ())))


class Gathered(NamedTuple):
    """What a desk has found: a window for each shard that it concerns, and (partition, offset) of misrouted events."""

    windows: dict[int, ShardWindow]
    misrouted: tuple[tuple[int, int], ...]


def gather(
    policy: Policy,
    cuts: Cuts | None,
    number: int,
    residents: Mapping[str, Resident],
    deltas: Deltas,
    histories: Histories,
) -> Gathered:
    """The windows of all shards, without what others published.

    `residents` are those whom the deltas are about and, in the release that makes the cuts, everybody: those without a
    delta who live elsewhere now move too. Without cuts everybody is in shard 0.
    """
    routed = _route(residents, deltas)
    windows = defaultdict[int, _Open](_Open)
    for partition, new in routed.new.items():
        for home, mine in _by_home(policy, cuts, new):
            windows[home].deltas.setdefault(partition, {}).update(mine)
    known = routed.known
    known |= {handle: None for handle in residents if handle not in known}
    after = [_after(policy, residents[handle], delta, number) for handle, delta in known.items()]
    homes = _homes(cuts, [person.qid for person in after])
    for (handle, delta), person, home in zip(known.items(), after, homes.tolist(), strict=True):
        resident = residents[handle]
        if resident.shard != home:
            is_erased = delta is not None and delta[KIND] >= ERASED
            windows[resident.shard].departures.append(handle)
            windows[home].arrivals[handle] = _pack(handle, resident, person, histories, is_erased=is_erased)
        elif delta is not None:
            windows[home].deltas.setdefault(resident.person.home, {})[handle] = delta
    lost = frozenset(handle for handle, delta in known.items() if delta is not None and delta[KIND] >= DEREGISTERED)
    for shard in range(policy.shards) if lost else ():
        windows[shard].lost = lost
    closed = {shard: window.close() for shard, window in sorted(windows.items())}
    return Gathered(closed, tuple(sorted(routed.misrouted)))


def may_move(residents: Mapping[str, Resident], deltas: Deltas) -> dict[str, Resident]:
    """Those of these people whom the deltas may take to another shard, between cuts that stand.

    Only of them histories are asked for. A person is forgotten, or has new quasi-identifiers, or stays.
    """
    moving = {
        handle
        for here in deltas.values()
        for handle, (kind, qid, *_) in here.items()
        if kind >= ERASED or (qid is not None and any(part is not None for part in qid))
    }
    return {handle: residents[handle] for handle in residents.keys() & moving}


def present(
    policy: Policy, number: int, residents: Mapping[str, Resident], deltas: Deltas
) -> Iterator[tuple[str, Qid]]:
    """Handles and quasi-identifiers of those who are present once a window is folded: the cuts are made from them.

    `residents` is everybody.
    """
    routed = _route(residents, deltas)
    for handle, resident in residents.items():
        person = _after(policy, resident, routed.known.get(handle), number)
        if person.status == PRESENT:
            yield handle, person.qid
    for new in routed.new.values():
        for handle, delta in new.items():
            if STATUS_AFTER[delta[KIND]] == PRESENT:
                assert delta[QID] is not None
                yield handle, delta[QID]


def nowhere_of(policy: Policy) -> Qid:
    """Where people without quasi-identifiers are."""
    return tuple(attribute.low for attribute in policy.attributes)


class _Open:
    """A shard's window that is still being written."""

    def __init__(self) -> None:
        self.deltas: dict[int, dict[str, Delta]] = {}
        self.arrivals: dict[str, Traveller] = {}
        self.departures: list[str] = []
        self.lost: frozenset[str] = frozenset()

    def close(self) -> ShardWindow:
        return ShardWindow(self.deltas, tuple(self.departures), self.lost, self.arrivals)


class _Routed(NamedTuple):
    """The deltas that count, of people who are known and, by partition, of new ones, and what was misrouted."""

    known: dict[str, Delta | None]
    new: dict[int, Mapping[str, Delta]]
    misrouted: list[tuple[int, int]]


def _route(residents: Mapping[str, Resident], deltas: Deltas) -> _Routed:
    """Parts the deltas by where they came from: a person's events count if they come by their home (see `fold`)."""
    if not residents and len(deltas) == 1:
        return _Routed({}, dict(deltas), [])  # a first release, which is large
    found = _Routed({}, {}, [])
    met: set[str] = set()
    for partition in sorted(deltas):
        new: dict[str, Delta] = {}
        for handle, delta in deltas[partition].items():
            resident = residents.get(handle)
            if resident is None and handle not in met:
                new[handle] = delta
            elif resident is not None and resident.person.home == partition:
                found.known[handle] = delta
            else:
                found.misrouted.extend((partition, offset) for offset in delta[OFFSETS] or ())
        met |= new.keys()
        found.new[partition] = new
    return found


def _by_home(
    policy: Policy, cuts: Cuts | None, new: Mapping[str, Delta]
) -> Iterator[tuple[int, Iterable[tuple[str, Delta]]]]:
    """The deltas of people who are new, shard by shard."""
    nowhere = nowhere_of(policy)
    homes = _homes(cuts, [delta[QID] or nowhere for delta in new.values()])
    for home in np.unique(homes).tolist():
        yield home, compress(new.items(), (homes == home).tolist())


def _homes(cuts: Cuts | None, qids: Sequence[Qid]) -> Rows:
    """The shard of each of these; the first one until there are cuts."""
    return np.full(len(qids), FIRST, dtype=np.int64) if cuts is None else cuts.homes(qids)


def _after(policy: Policy, resident: Resident, delta: Delta | None, number: int) -> Person:
    """Somebody's record after the window, with the entries that they had before it."""
    before = resident.person
    if delta is None:
        return before
    nowhere, permanent = nowhere_of(policy), policy.sensitive.permanent
    after = after_delta(before, delta, number, permanent, nowhere, cures=True) or before
    return after._replace(entries=before.entries, trail=_trail(before, after, delta))


def _trail(before: Person, after: Person, delta: Delta) -> tuple[Qid, ...]:
    """Where somebody has been, as `follow` has it for those who stay."""
    if delta[KIND] >= ERASED:
        return (EVERYWHERE,)
    if after.qid == before.qid or EVERYWHERE in before.trail:
        return before.trail
    return tuple(dict.fromkeys([*before.trail, before.qid]))


def _pack(handle: str, resident: Resident, person: Person, histories: Histories, *, is_erased: bool) -> Traveller:
    shard = resident.shard
    packed = Traveller.of(person, resident.person.entries, lambda number: histories.values_of(shard, number))
    return packed._replace(bound=histories.bound(shard, handle), is_erased=is_erased)
