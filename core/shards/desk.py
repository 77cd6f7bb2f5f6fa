"""The desk: folds the window of some people over the records of the release before, and says which shards it concerns.

Ingest knows no shards, because an update of one attribute does not say where its person lives. So a desk takes all
deltas about the ids of one bucket, from all partitions, and the records of these people. Somebody whose folded record
lies in another shard than the old one is a departure here and an arrival there. There and back again in one window is
no move, because only the folded record counts.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from shoal.core.events.window import ERASED, KIND, OFFSETS, PRESENT, QID, STATUS_AFTER, Delta
from shoal.core.fold import after_delta
from shoal.core.people import Person, Qid
from shoal.core.policy.policy import Policy
from shoal.core.shards.cuts import Cuts
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
    routed, misrouted = _route(residents, deltas)
    lines: list[tuple[str, int, Delta | None]] = [(handle, *found) for handle, found in routed.items()]
    lines += [(handle, one.person.home, None) for handle, one in residents.items() if handle not in routed]
    nowhere = nowhere_of(policy)
    after = [
        (_newcomer(delta, nowhere) if one is None else _after(policy, one, delta, number))
        for one, delta in ((residents.get(handle), delta) for handle, _, delta in lines)
    ]
    homes = [FIRST] * len(after) if cuts is None else cuts.shards_of([qid for qid, _ in after])
    windows = defaultdict[int, _Open](_Open)
    for (handle, partition, delta), (_, person), home in zip(lines, after, homes, strict=True):
        resident = residents.get(handle)
        if resident is not None and resident.shard != home:
            assert person is not None
            is_erased = delta is not None and delta[KIND] >= ERASED
            windows[resident.shard].leave(handle, is_erased=is_erased)
            windows[home].arrivals[handle] = _pack(handle, resident, person, histories, is_erased=is_erased)
        elif delta is not None:
            windows[home].deltas.setdefault(partition, {})[handle] = delta
    return Gathered({shard: window.close() for shard, window in sorted(windows.items())}, tuple(sorted(misrouted)))


def present(
    policy: Policy, number: int, residents: Mapping[str, Resident], deltas: Deltas
) -> Iterator[tuple[str, Qid]]:
    """Handles and quasi-identifiers of those who are present once a window is folded: the cuts are made from them.

    `residents` is everybody.
    """
    routed, _ = _route(residents, deltas)
    for handle, resident in residents.items():
        routed_one = routed.pop(handle, None)
        _, person = _after(policy, resident, routed_one and routed_one[1], number)
        if person.status == PRESENT:
            yield handle, person.qid
    for handle, (_, delta) in routed.items():
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
        self._departures: list[str] = []
        self._erased: set[str] = set()

    def leave(self, handle: str, *, is_erased: bool) -> None:
        self._departures.append(handle)
        if is_erased:
            self._erased.add(handle)

    def close(self) -> ShardWindow:
        return ShardWindow(self.deltas, tuple(self._departures), frozenset(self._erased), self.arrivals)


def _route(
    residents: Mapping[str, Resident], deltas: Deltas
) -> tuple[dict[str, tuple[int, Delta]], list[tuple[int, int]]]:
    """The deltas that count, with their partitions, and what came by another than the person's home (see `fold`)."""
    found: dict[str, tuple[int, Delta]] = {}
    misrouted: list[tuple[int, int]] = []
    for partition in sorted(deltas):
        for handle, delta in deltas[partition].items():
            resident = residents.get(handle)
            if handle not in found if resident is None else resident.person.home == partition:
                found[handle] = partition, delta
            else:
                misrouted.extend((partition, offset) for offset in delta[OFFSETS] or ())
    return found, misrouted


def _newcomer(delta: Delta | None, nowhere: Qid) -> tuple[Qid, None]:
    assert delta is not None
    return delta[QID] or nowhere, None


def _after(policy: Policy, resident: Resident, delta: Delta | None, number: int) -> tuple[Qid, Person]:
    """Where somebody is after the window, and their record."""
    before = resident.person
    if delta is None:
        return before.qid, before
    nowhere, permanent = nowhere_of(policy), policy.sensitive.permanent
    after = after_delta(before, delta, number, permanent, nowhere, cures=True) or before
    return after.qid, after._replace(entries=before.entries, trail=_trail(before, after, delta))


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
