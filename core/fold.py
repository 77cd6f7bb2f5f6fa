"""Step 1 of a release: the net effect of a window on everyone in it (DESIGN, section 4)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from core.intake import PATCH, PRESENT, STATUS_AFTER, Delta
from core.people import NOBODY, People, Person, Qid


class Window(NamedTuple):
    """What gathered since the last release: the trigger's time, and per partition the folded events of each person."""

    at: str | None
    deltas: Mapping[int, Mapping[str, Delta]]


@dataclass
class Folded:
    """Who changed. `broken` are the groups that lost someone or hold someone changed."""

    touched: list[int] = field(default_factory=list)
    arrived: list[int] = field(default_factory=list)
    broken: set[int] = field(default_factory=set)
    misrouted: list[tuple[int, int]] = field(default_factory=list)


def fold(people: People, window: Window, number: int) -> Folded:
    """Apply a window to `people`, in the order of ids, so that how partitions interleave does not matter.

    Somebody whose record is what it was at the last release did not change, whatever happened in between.
    """
    folded = Folded()
    deltas = _at_home(people, window, folded)
    newcomers: list[tuple[str, Person]] = []
    for person_id in sorted(deltas):
        home, delta = deltas[person_id]
        row = people.rows.get(person_id)
        if row is None:
            newcomers.append((person_id, _newcomer(people, home, delta, number)))
            continue
        before = people.person(row)
        after = _after(before, delta, number)
        if after == before:
            continue
        folded.touched.append(row)
        if before.group != NOBODY:
            folded.broken.add(before.group)
        people.put(person_id, after._replace(group=NOBODY))
        if after.status == PRESENT:
            folded.arrived.append(row)
    first = len(people)
    people.extend(newcomers)
    folded.touched.extend(range(first, len(people)))
    folded.arrived.extend(row for row in range(first, len(people)) if people.status[row] == PRESENT)
    return folded


def _at_home(people: People, window: Window, folded: Folded) -> dict[str, tuple[int, Delta]]:
    """Each person's events from their home partition; what came from elsewhere is misrouted and has no effect.

    Home is the partition that first brought the id, the lowest one if several did in the same window. Two producers
    with different partitioners can send one person's events to two partitions, whose order nobody knows.
    """
    found: dict[str, tuple[int, Delta]] = {}
    for partition in sorted(window.deltas):
        for person_id, delta in window.deltas[partition].items():
            row = people.rows.get(person_id)
            is_home = person_id not in found if row is None else int(people.home[row]) == partition
            if is_home:
                found[person_id] = (partition, delta)
            else:
                folded.misrouted.extend((partition, offset) for offset in delta[3] or ())
    return found


def _newcomer(people: People, home: int, delta: Delta, number: int) -> Person:
    kind, qid, values, _ = delta
    # who came, went and ceased to exist in one window is remembered only so that they cannot come back
    return Person(STATUS_AFTER[kind], home, people.nowhere if qid is None else qid, values or (), NOBODY, (), number)


def _after(before: Person, delta: Delta, number: int) -> Person:
    kind, changed, values, _ = delta
    qid: Qid = before.qid
    if changed is not None:
        qid = tuple(old if new is None else new for old, new in zip(before.qid, changed, strict=True))
    since = before.since if qid == before.qid else number
    if values is None:
        values = before.values if kind == PATCH else ()
    return before._replace(status=STATUS_AFTER[kind], qid=qid, since=since, values=values)
