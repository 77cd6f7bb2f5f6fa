"""Step 1 of a release: the net effect of a window on everyone in it (docs/design.md, "How a release is made")."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from shoal.core.events.guard import Guard
from shoal.core.events.window import (
    ABSENT,
    ERASED,
    ERASED_STATUS,
    GONE,
    GUARD,
    KIND,
    OFFSETS,
    PATCH,
    PRESENT,
    QID,
    STATUS_AFTER,
    VALUES,
    Delta,
    held_in,
)
from shoal.core.overlap.external import ExternalGroup
from shoal.core.people import People
from shoal.core.person import FORGOTTEN, NOBODY, NOWHERE, Person, Qid, Values

NO_VALUES: frozenset[int] = frozenset()


class Window(NamedTuple):
    """Everything since the last release: the trigger's time, the deltas of people by partition, others' new groups."""

    at: str | None
    deltas: Mapping[int, Mapping[str, Delta]]
    externals: Sequence[ExternalGroup] = ()


@dataclass
class Folded:
    """The rows of people who changed. `broken` are the groups that lost a person or in which one changed; `erased` are
    people of whom everything before is to be forgotten, whether or not they have come back since; `departed` are those
    who left for another shard.
    """

    touched: list[int] = field(default_factory=list)
    arrived: list[int] = field(default_factory=list)
    erased: list[int] = field(default_factory=list)
    broken: set[int] = field(default_factory=set)
    misrouted: list[tuple[int, int]] = field(default_factory=list)
    departed: list[int] = field(default_factory=list)


def fold(
    people: People, window: Window, number: int, permanent: frozenset[int] = NO_VALUES, *, cures: bool = False
) -> Folded:
    """Apply a window to `people`. No delta depends on another one, so their order does not matter.

    A person whose record is the same as at the last release did not change, whatever happened in between. A person
    who was given one of the `permanent` values holds it from then on, also while they have no record; an erasure ends
    that if it `cures`.
    """
    folded = Folded()
    newcomers: dict[str, tuple[int, Delta]] = {}
    known: list[int] = []
    deltas: list[Delta] = []
    gone: list[int] = []
    for partition in sorted(window.deltas):
        here = window.deltas[partition]
        rows = people.rows_of(here)
        found = np.array([row for row in rows if row is not None], dtype=np.int64)
        homes = iter(people.home[found].tolist())
        for (person_id, delta), row in zip(here.items(), rows, strict=True):
            if row is None and person_id not in newcomers:
                newcomers[person_id] = partition, delta
            elif row is None or next(homes) != partition:
                folded.misrouted.extend((partition, offset) for offset in delta[OFFSETS] or ())
            elif delta[KIND] == GONE and delta[VALUES] is None and delta[GUARD] is None:
                gone.append(row)
            else:
                known.append(row)
                deltas.append(delta)
    _depart(people, gone, folded)
    changed = []
    before_all = people.records(np.array(known, dtype=np.int64))
    for row, delta, before in zip(known, deltas, before_all, strict=True):
        is_erased = delta[KIND] >= ERASED
        if is_erased:
            folded.erased.append(row)
        after = after_delta(before, delta, number, permanent, people.nowhere, cures=cures)
        if after is not None or is_erased:
            folded.touched.append(row)
        if after is None:
            continue
        changed.append((row, after))
        if before.group != NOBODY:
            folded.broken.add(before.group)
        if after.status == PRESENT:
            folded.arrived.append(row)
    people.put(changed)
    first = len(people)
    _admit(people, newcomers, number, permanent)
    folded.erased.extend(first + at for at, (_, delta) in enumerate(newcomers.values()) if delta[KIND] >= ERASED)
    folded.touched.extend(range(first, len(people)))
    folded.arrived.extend((first + np.flatnonzero(people.status[first:] == PRESENT)).tolist())
    return folded


def _depart(people: People, gone: Sequence[int], folded: Folded) -> None:
    """Take away the records of people whose deltas say only that they are gone."""
    rows = np.array(gone, dtype=np.int64)
    rows = rows[people.status[rows] != ABSENT]
    folded.touched.extend(rows.tolist())
    folded.broken.update(people.group[rows[people.group[rows] != NOBODY]].tolist())
    people.depart(rows)


def _admit(people: People, newcomers: Mapping[str, tuple[int, Delta]], number: int, permanent: frozenset[int]) -> None:
    """Add people who are new.

    A person's home is the partition on which their first events came; if there were several in the same window, the
    lowest. Producers with different partitioners can send one person's events to two partitions, and then the order of
    these events is unknown. Events from any other partition than home are misrouted and have no effect.
    """
    if not newcomers:
        return
    homes, deltas = zip(*newcomers.values(), strict=True)
    kinds, qids, values, _, wishes = zip(*deltas, strict=True)
    first = len(people)
    status = [STATUS_AFTER[kind] for kind in kinds]
    people.admit(
        list(newcomers),
        status=status,
        home=homes,
        # A person who came, left and ceased to exist in one window is kept only so that they cannot come back.
        qids=[people.nowhere if qid is None else qid for qid in qids],
        values=[(shown or ()) if now == PRESENT else () for shown, now in zip(values, status, strict=True)],
        guards=[Guard(*wish) if wish else None for wish in wishes],
        since=number,
    )
    people.since[first:][people.status[first:] == ERASED_STATUS] = FORGOTTEN
    if permanent:
        people.held[first:] = people.sets.codes(held_in(shown, permanent) for shown in values)


def after_delta(
    before: Person, delta: Delta, number: int, permanent: frozenset[int], nowhere: Qid, *, cures: bool
) -> Person | None:
    """The record that a delta makes of one, without a group; None if it equals the old one."""
    if delta[KIND] >= ERASED:
        return _after_erasure(before, delta, number, permanent, nowhere, cures=cures)
    return _after(before, delta, number, permanent)


def _after(before: Person, delta: Delta, number: int, permanent: frozenset[int]) -> Person | None:
    """A person's new record, without a group; None if it equals the old one."""
    kind, patch, values, _, wish = delta
    qid: Qid = before.qid
    if patch is not None:
        qid = (
            patch if kind != PATCH else tuple(old if new is None else new for old, new in zip(qid, patch, strict=True))
        )
    status = STATUS_AFTER[kind]
    held = _joined(before.held, held_in(values, permanent)) if permanent else before.held
    if status != PRESENT:
        values = ()
    elif values is None:
        values = before.values if kind == PATCH else held
    else:
        values = _joined(values, held)
    guard = before.guard if wish is None else Guard(*wish) if wish else None
    if (status, qid, values, guard, held) == (before.status, before.qid, before.values, before.guard, before.held):
        return None
    has_moved = qid != before.qid or before.status == ERASED_STATUS
    since, coarse = (number, NOWHERE) if has_moved else (before.since, before.coarse)
    return Person(status, before.home, qid, values, NOBODY, before.exposures, since, guard, held, coarse)


def _after_erasure(
    before: Person, delta: Delta, number: int, permanent: frozenset[int], nowhere: Qid, *, cures: bool
) -> Person | None:
    """A person's new record after everything about them before was forgotten, which may leave it as it was.

    Groups that they were published in stay in the record: the promise to a person who comes back counts them.
    """
    held = () if cures else _joined(before.held, held_in(delta[VALUES], permanent))
    if delta[QID] is None:
        status = STATUS_AFTER[delta[KIND]]
        gone = Person(status, before.home, nowhere, (), NOBODY, before.exposures, FORGOTTEN, held=held)
        return None if gone == before else gone
    forgotten = before._replace(guard=None, held=held)
    after = _after(forgotten, delta, number, permanent)
    if after is None:  # they are what they were, but for what was forgotten
        after = forgotten._replace(group=NOBODY)
    same = ("status", "qid", "values", "guard", "held")
    return None if all(getattr(after, name) == getattr(before, name) for name in same) else after


def _joined(some: Values, others: Values) -> Values:
    return tuple(sorted({*some, *others})) if others else some
