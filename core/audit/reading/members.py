"""The membership files against what was published and the true table (docs/contract.md, "Private files")."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from shoal.core.audit.criteria.counts import PUBLISHED_AT
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.truth import Record
from shoal.core.audit.reading.view import Entry, Line, Secrets
from shoal.core.policy.hierarchy import Hierarchy

TWICE = "a person is published twice in a release"
NOT_PRESENT = "somebody is published who is not present"
NO_SUCH_PLACE = "the membership names a group or cell that is not published"
ROWS = "a group's rows are not the people in it"
WITHHELD = "people, withheld and unsampled do not add up to everyone present"

Places = Mapping[str, tuple[str, str]]
People = Mapping[str, Sequence[str]]


def place_members(release: Published, members: Sequence[Line], table: Mapping[str, object]) -> tuple[Places, People]:
    """Who is where, by id and by group, leaving out whoever is not present, twice, or nowhere."""
    cells = {name: {cell.name for cell in group.cells} for name, group in release.groups.items()}
    places: dict[str, tuple[str, str]] = {}
    people: dict[str, list[str]] = defaultdict(list)
    for person, group, cell, _ in members:
        if person in table and person not in places and cell in cells.get(group, ()):
            places[person] = group, cell
            people[group].append(person)
    return places, people


def place_entries(
    release: Published, members: Sequence[Line], table: Mapping[str, Record], hierarchy: Hierarchy
) -> tuple[Mapping[str, list[Line]], Mapping[str, list[Entry]]]:
    """The rows of a lasting table, by person and by group, leaving out those of somebody not present, or nowhere.

    By group only those are kept that stand for a value of their person, or for none.
    """
    cells = {name: {cell.name for cell in group.cells} for name, group in release.groups.items()}
    lines: dict[str, list[Line]] = defaultdict(list)
    entries: dict[str, list[Entry]] = defaultdict(list)
    for line in members:
        if line.person in table and line.cell in cells.get(line.group, ()):
            lines[line.person].append(line)
            leaf = None if line.value is None else hierarchy.leaf_code.get(line.value)
            if line.value is None or leaf in table[line.person].values:
                entries[line.group].append(Entry(line.person, leaf))
    return lines, entries


class Membership:
    """Whether everyone published is there, once, in the row that was published for them."""

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        number = release.number
        seen: set[str] = set()
        cells = {name: {cell.name for cell in group.cells} for name, group in release.groups.items()}
        for person, group, cell, _ in secrets.members:
            findings.say(Promise.CONTRACT, TWICE, number, times=int(person in seen))
            findings.say(Promise.CONTRACT, NOT_PRESENT, number, times=int(person not in secrets.table))
            findings.say(Promise.CONTRACT, NO_SUCH_PLACE, number, times=int(cell not in cells.get(group, ())))
            seen.add(person)
        rows = Counter((line.group, line.cell) for line in secrets.members)
        for name, published in release.groups.items():
            wrong = any(rows[name, cell.name] != cell.rows for cell in published.cells)
            findings.say(Promise.CONTRACT, ROWS, number, name, int(wrong))
        manifest = release.manifest
        if manifest is not None:
            everyone = manifest["people"] + manifest["withheld"] + manifest["unsampled"]
            findings.say(Promise.CONTRACT, WITHHELD, number, times=int(everyone != len(secrets.table)))
            is_asked = manifest["published_at"] == secrets.at
            findings.say(Promise.CONTRACT, PUBLISHED_AT, number, times=int(not is_asked))
