"""`changed` against who was where: a group that says it did not change has the same rows, one that did has not.

docs/contract.md, "Groups". It changed if a row went, came back or moved, or if its person's record changed.
"""

from typing import Final

from shoal.core.audit.criteria.carrying import OTHER_PEOPLE, are_finer
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Group, Published
from shoal.core.audit.reading.truth import Record
from shoal.core.audit.reading.view import Entry, Secrets

UNCHANGED: Final = "a group says it changed, and nothing in it did"


class SameEntries:
    """Compares the rows of each group with those of the release before."""

    def __init__(self) -> None:
        self._entries: dict[str, frozenset[Entry]] = {}
        self._records: dict[str, Record] = {}
        self._groups: dict[str, Group] = {}

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        number = release.number
        entries = {name: frozenset(listed) for name, listed in secrets.entries.items()}
        for name, group in release.groups.items():
            before = self._groups.get(name)
            if before is None or name not in entries or name not in self._entries:
                continue
            is_same = entries[name] == self._entries[name]
            if group.changed < number:
                findings.say(Promise.G6, OTHER_PEOPLE, number, name, int(not is_same))
            elif is_same and (before.shown, before.vacant) == (group.shown, group.vacant):
                people = {entry.person for entry in entries[name]}
                has_changed = any(secrets.table[person] != self._records.get(person) for person in people)
                is_idle = not has_changed and are_finer(before.cells, group.cells)
                findings.say(Promise.CONTRACT, UNCHANGED, number, name, int(is_idle))
        self._entries, self._groups = entries, dict(release.groups)
        self._records = {person: secrets.table[person] for person in secrets.homes}
