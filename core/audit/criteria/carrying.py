"""Carried groups: the same id, people and values while nobody in them changed, and only then.

That a group is the same draw, charged once, is exact only because of this (docs/design.md, "G2 Global").
"""

from collections.abc import Callable, Iterable, Mapping

from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Cell, Group, Published
from shoal.core.audit.reading.truth import Record
from shoal.core.audit.reading.view import Secrets

USED_AGAIN = "a group id is used again"
CHANGED_SINCE = "a group of a redrawn table says that it changed since it was formed"
FORMED_LATER = "a group says it was formed in a release that does not have it"
NOT_THE_SAME = "a carried group is not what it was"
NOT_FINER = "a carried group's cells are not its earlier ones or finer"
OTHER_PEOPLE = "a carried group has other people"
CHANGED = "a group is carried although one of its people changed"
BROKEN = "a group is broken although nobody in it changed and no cell of it closed"

Excuse = Callable[[Group, Iterable[str], Secrets], bool]


class CarriedGroups:
    """What carried groups show by themselves."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._last: dict[str, Group] = {}

    def see(self, release: Published, findings: Findings) -> None:
        for name, group in release.groups.items():
            before = self._last.get(name)
            findings.say(Promise.G6, CHANGED_SINCE, release.number, name, int(group.changed != group.formed))
            if group.formed == release.number:
                findings.say(Promise.G6, USED_AGAIN, release.number, name, int(name in self._seen))
            elif before is None:
                sentence = USED_AGAIN if name in self._seen else FORMED_LATER
                findings.say(Promise.G6, sentence, release.number, name)
            elif (before.formed, before.shown, before.rows) != (group.formed, group.shown, group.rows):
                findings.say(Promise.G6, NOT_THE_SAME, release.number, name)
            elif not are_finer(before.cells, group.cells):
                findings.say(Promise.G6, NOT_FINER, release.number, name)
            self._seen.add(name)
        self._last = dict(release.groups)


def are_finer(before: tuple[Cell, ...], now: tuple[Cell, ...]) -> bool:
    """Whether the rows of each earlier cell can all be in cells inside it now; there are as many now as before.

    One cell of a group may lie in another. Cells either lie in one another or apart, so it is enough that no cell holds
    fewer rows now, with all the cells inside it, than it did. Nor may a cell it had have more rows by itself: these
    would have come from a larger one, and been told apart from the people of this one.
    """
    rows = {cell.name: cell.rows for cell in before}
    if any(cell.rows > rows.get(cell.name, cell.rows) for cell in now):
        return False
    if rows == {cell.name: cell.rows for cell in now}:
        return True
    return all(_rows_inside(old, now) >= _rows_inside(old, before) for old in before)


def _rows_inside(outer: Cell, cells: tuple[Cell, ...]) -> int:
    return sum(cell.rows for cell in cells if cell.region.is_inside(outer.region))


class ChangedPeople:
    """Whether groups are carried exactly while nobody in them changed.

    Whom a permanent value ties to others (their group showed one or "*", or does now), these may call away from a group
    that could have been carried.
    """

    def __init__(self, is_unsafe: Excuse, permanent_nodes: frozenset[int] = frozenset()) -> None:
        self._is_unsafe = is_unsafe  # beside what others have published since
        self._tying = permanent_nodes | {0} if permanent_nodes else permanent_nodes
        self._tied: set[str] = set()  # groups of the last release
        self._people: dict[str, frozenset[str]] = {}
        self._records: dict[str, Record] = {}
        self._groups: Mapping[str, Group] = {}

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        number = release.number
        people = {name: frozenset(ids) for name, ids in secrets.people.items()}
        tied = {name for name, group in release.groups.items() if self._tying & group.shown.keys()}
        for name, before in self._people.items():
            has_changed = any(secrets.table.get(person) != self._records[person] for person in before)
            if name in people:
                findings.say(Promise.G6, OTHER_PEOPLE, number, name, int(people[name] != before))
                findings.say(Promise.G2, CHANGED, number, name, int(has_changed))
                continue
            # A cell of it that fell under k would have taken at least one of its people out of the release.
            is_as_before = not has_changed and before <= secrets.places.keys() and name not in self._tied
            is_called_away = is_as_before and any(secrets.places[person][0] in tied for person in before)
            if is_as_before and not is_called_away and not self._is_unsafe(self._groups[name], before, secrets):
                findings.say(Promise.CONTRACT, BROKEN, number, name)
        self._tied = tied
        self._people, self._groups = people, release.groups
        self._records = {person: secrets.table[person] for person in secrets.places}
