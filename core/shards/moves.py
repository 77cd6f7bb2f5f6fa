"""Moves: a shard's input for a release, and everything that a person takes from shard to shard.

A shard's signatures, groups and cliques are its own, and their numbers mean nothing elsewhere. So a *traveller* takes
along what the numbers stand for: the values of each entry's signature, and the permanent values for which they are in a
clique. The group stays behind.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any, NamedTuple

from shoal.core.events.window import Delta
from shoal.core.overlap.external import ExternalGroup, as_external
from shoal.core.person import Person
from shoal.core.signatures.entries import EntryRecord
from shoal.core.stored import read_person, write_person

Deltas = Mapping[int, Mapping[str, Delta]]


class SignedEntry(NamedTuple):
    """An entry that says its signature by its values; `plain` is NO_SIGNATURE or PLAIN for one that has none."""

    value: int
    signature: tuple[int, ...]
    plain: int
    flags: int


class Traveller(NamedTuple):
    """Somebody who comes from another shard.

    `person` is their record with this window folded in, without entries, and with the trail to where they are now.
    `entries` are those of the release before. `bound` are the values for which they are or were in a clique.
    """

    person: Person
    entries: tuple[SignedEntry, ...]
    bound: tuple[int, ...] = ()
    is_erased: bool = False

    @classmethod
    def of(
        cls, person: Person, entries: Iterable[Sequence[int]], values_of: Callable[[int], tuple[int, ...]]
    ) -> "Traveller":
        """`entries` as they are stored in the shard that is left, and `values_of` its signatures by number."""
        found = [
            SignedEntry(value, values_of(signature) if signature >= 0 else (), min(0, signature), flags)
            for value, signature, _, flags, _ in map(EntryRecord._make, entries)
        ]
        return cls(person._replace(entries=()), tuple(found))

    def pack(self) -> tuple[Any, ...]:
        """Plain tuples and numbers."""
        return write_person(self.person), tuple(map(tuple, self.entries)), self.bound, self.is_erased

    @classmethod
    def unpack(cls, packed: Sequence[Any]) -> "Traveller":
        """The inverse."""
        person, entries, bound, is_erased = packed
        return cls(read_person(person), tuple(map(SignedEntry._make, entries)), bound, is_erased)


class ShardWindow(NamedTuple):
    """Everything since the last release that concerns one shard.

    `deltas` are of the people who stay or are new, by their home partition; nothing in them is misrouted. `departures`
    leave for another shard. Every shard is told who is `lost` for good in the whole table, erased or deregistered, for
    they may be in a clique there, and of all that other publishers released.
    """

    deltas: Deltas = MappingProxyType({})
    departures: tuple[str, ...] = ()
    lost: frozenset[str] = frozenset()
    arrivals: Mapping[str, Traveller] = MappingProxyType({})
    externals: Sequence[ExternalGroup] = ()

    def pack(self) -> tuple[Any, ...]:
        """Plain tuples, numbers and text, as msgpack writes them and, with `use_list=False`, reads them."""
        deltas = tuple((partition, tuple(here.items())) for partition, here in sorted(self.deltas.items()))
        arrivals = tuple((handle, traveller.pack()) for handle, traveller in self.arrivals.items())
        return deltas, self.departures, tuple(sorted(self.lost)), arrivals, tuple(map(tuple, self.externals))

    @classmethod
    def unpack(cls, packed: Sequence[Any]) -> "ShardWindow":
        """The inverse."""
        deltas, departures, lost, arrivals, externals = packed
        return cls(
            {partition: dict(here) for partition, here in deltas},
            departures,
            frozenset(lost),
            {handle: Traveller.unpack(fields) for handle, fields in arrivals},
            tuple(map(as_external, externals)),
        )

    @property
    def people(self) -> list[str]:
        """Everybody whom it is about."""
        deltas = (handle for here in self.deltas.values() for handle in here)
        return list(dict.fromkeys([*deltas, *self.departures, *sorted(self.lost), *self.arrivals]))

    def only(self, people: Set[str], groups: int) -> "ShardWindow":
        """What concerns these people, and so many of the groups of other publishers."""
        return ShardWindow(
            {number: {one: here[one] for one in here if one in people} for number, here in self.deltas.items()},
            tuple(one for one in self.departures if one in people),
            self.lost & people,
            {one: traveller for one, traveller in self.arrivals.items() if one in people},
            self.externals[:groups],
        )


def joined(windows: Iterable[ShardWindow], externals: Sequence[ExternalGroup]) -> ShardWindow:
    """What several desks have gathered for one shard; no two of them write of one person."""
    deltas: dict[int, dict[str, Delta]] = {}
    departures: list[str] = []
    lost: set[str] = set()
    arrivals: dict[str, Traveller] = {}
    for window in windows:
        for partition, here in window.deltas.items():
            deltas.setdefault(partition, {}).update(here)
        departures += window.departures
        lost |= window.lost
        arrivals.update(window.arrivals)
    return ShardWindow(deltas, tuple(departures), frozenset(lost), arrivals, externals)
