"""Groups that live on: `formed` and `changed` against the release before, and against who has which row.

docs/contract.md, "Groups": `changed` < `release` means the same people and values, in the same cells or finer ones. A
group of a lasting table lives on while its people come and go; ids are never used again.
"""

from typing import Final

from shoal.core.audit.criteria.carrying import NOT_FINER, NOT_THE_SAME, OTHER_PEOPLE, USED_AGAIN, are_finer
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Group, Published
from shoal.core.audit.reading.truth import Record
from shoal.core.audit.reading.view import Entry, Secrets

FORMED: Final = "a group says it was formed in a release that does not have it"
ORDER: Final = "a group says it changed before it was formed, or later than now"
OTHER_FORMED: Final = "a group says it was formed in another release than it said before"
UNCHANGED: Final = "a group says it changed, and nothing in it did"


class LivingGroups:
    """What groups that live on show by themselves."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._last: dict[str, Group] = {}

    def see(self, release: Published, findings: Findings) -> None:
        for name, group in release.groups.items():
            sentence = self._wrong(release.number, group)
            if sentence is not None:
                findings.say(Promise.G6, sentence, release.number, name)
            self._seen.add(name)
        self._last = dict(release.groups)

    def _wrong(self, number: int, group: Group) -> str | None:
        before = self._last.get(group.name)
        if not group.formed <= group.changed <= number:
            return ORDER
        if group.formed == number:
            return USED_AGAIN if group.name in self._seen else None
        if before is None:
            return USED_AGAIN if group.name in self._seen else FORMED
        if before.formed != group.formed:
            return OTHER_FORMED
        if group.changed == number:
            return None
        now = group.changed, group.shown, group.counterfeits, group.rows
        if now != (before.changed, before.shown, before.counterfeits, before.rows):
            return NOT_THE_SAME
        return None if are_finer(before.cells, group.cells) else NOT_FINER


class SameEntries:
    """Whether the people of groups that did not change are the same, with the same values."""

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
            elif is_same and (before.shown, before.counterfeits) == (group.shown, group.counterfeits):
                people = {entry.person for entry in entries[name]}
                has_changed = any(secrets.table[person] != self._records.get(person) for person in people)
                is_idle = not has_changed and are_finer(before.cells, group.cells)
                findings.say(Promise.CONTRACT, UNCHANGED, number, name, int(is_idle))
        self._entries, self._groups = entries, dict(release.groups)
        self._records = {person: secrets.table[person] for person in secrets.homes}
