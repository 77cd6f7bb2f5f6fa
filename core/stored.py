"""How a person is written down: the fields of a record in their stored order, short where a person is like most others.

Most people of a lasting table have neither guard nor permanent value nor trail, and nobody there has a group of their
own. Most people of a redrawn table have a group and exposures, and no more. So what only some people have stands at the
end, and a record ends where nothing follows but defaults.

| length | who                               | fields                                                                  |
|--------|-----------------------------------|-------------------------------------------------------------------------|
| 6      | most people of a lasting table    | status, home, qid, values, since, entries                               |
| 8      | most people of a redrawn table    | … group, exposures                                                      |
| 12     | everybody else                    | … guard, held, coarse, trail                                            |

A first release writes a million people, so `write_people` goes from columns to records without a `Person` in between.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.people import People
from shoal.core.person import NOBODY, NONE, NOWHERE, Person
from shoal.core.signatures.entries import Entries
from shoal.core.signatures.trail import Trail

Stored = tuple[Any, ...]

HOME: Final = 1
_LASTING, _REDRAWN = 6, 8
_ORDINARY: Final = (None, (), NOWHERE, ())  # guard, held, coarse, trail of most people


def write_person(person: Person) -> Stored:
    """A person's record."""
    status, home, qid, values, group, exposures, since, guard, held, coarse, entries, trail = person
    whole = (status, home, qid, values, since, entries, group, exposures, guard, held, coarse, trail)
    if whole[_REDRAWN:] != _ORDINARY:
        return whole
    return whole[:_LASTING] if group == NOBODY and not exposures else whole[:_REDRAWN]


def read_person(stored: Sequence[Any]) -> Person:
    """The inverse."""
    if len(stored) == _LASTING:
        status, home, qid, values, since, entries = stored
        return Person(status, home, qid, values, NOBODY, (), since, entries=entries)
    status, home, qid, values, since, entries, group, exposures, *rest = stored
    guard, held, coarse, trail = rest or _ORDINARY
    return Person(status, home, qid, values, group, exposures, since, guard, held, coarse, entries, trail)


def write_people(people: People, entries: Entries, trail: Trail, rows: Rows) -> Iterator[tuple[str, Stored]]:
    """Ids and records of these people of a lasting table; a microsecond each, a guard or a trail some more."""
    is_ordinary = (people.guard[rows] == NONE) & (people.held[rows] == NONE)
    is_ordinary &= ~np.isin(rows, np.fromiter(trail, dtype=np.int64, count=len(trail)))
    sets, guards = people.sets.items, people.guards.items
    values = map(sets.__getitem__, people.set[rows].tolist())
    qids = zip(*(column[rows].tolist() for column in people.columns), strict=True)
    fixed = (people.status[rows].tolist(), people.home[rows].tolist(), qids, values, people.since[rows].tolist())
    mostly = zip(*fixed, entries.records(rows), strict=True)
    if is_ordinary.all():
        return zip(people.ids(rows), mostly, strict=True)
    others = {
        place: (guards[guard], sets[held], NOWHERE, trail.get(row, ()))
        for place, row, guard, held in zip(
            np.flatnonzero(~is_ordinary).tolist(),
            rows[~is_ordinary].tolist(),
            people.guard[rows[~is_ordinary]].tolist(),
            people.held[rows[~is_ordinary]].tolist(),
            strict=True,
        )
    }
    records = (
        (*record, NOBODY, (), *others[place]) if place in others else record for place, record in enumerate(mostly)
    )
    return zip(people.ids(rows), records, strict=True)
