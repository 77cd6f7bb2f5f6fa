"""S1 and S4 against who was where: groups are formed of newcomers, evenly, and an entry has one group for ever.

docs/design.md, "Values that last". A group is formed of exactly q entries of each value of its signature, none of them
shown before and no two of one person. Nobody joins it. An entry that comes back comes back to its own group. Somebody
who moves to another shard is a newcomer there, with the same signature.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from shoal.core.audit.criteria.lasting.history import History
from shoal.core.audit.criteria.lasting.terms import Kind
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Group, Published
from shoal.core.audit.reading.together import shard_of
from shoal.core.audit.reading.view import Entry, Secrets

OTHER_GROUP: Final = "S1: a value of a person is shown in another group than before"
OTHER_SIGNATURE: Final = "S1: a value of a person is shown under another signature than before"
NOT_EVEN: Final = "S4: a group is not formed of equally many entries of each of its values"
JOINED: Final = "S4: somebody joined a group after it was formed"
TWO_OF_ONE: Final = "S2: a person has two entries in one group"


class Rounds:
    """Keeps the entries that each group was formed of."""

    def __init__(self, history: History) -> None:
        self._history, self._terms = history, history.terms
        self._formed: dict[str, frozenset[Entry]] = {}

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        for name, entries in secrets.entries.items():
            group = release.groups[name]
            if self._terms.kind(group) is not Kind.SIGNATURE:
                continue
            people = Counter(entry.person for entry in entries)
            wrong = {
                TWO_OF_ONE: sum(count > 1 for count in people.values()),
                OTHER_GROUP: sum(self._is_elsewhere(entry, name) for entry in entries),
                OTHER_SIGNATURE: sum(self._is_otherwise(entry, group) for entry in entries),
            }
            if name in self._formed:
                wrong[JOINED] = sum(entry not in self._formed[name] for entry in entries)
            else:
                self._formed[name] = frozenset(entries)
                wrong[NOT_EVEN] = int(not self._is_even(group, entries))
            for sentence, times in wrong.items():
                findings.say(Promise.G2, sentence, release.number, name, times)

    def _is_elsewhere(self, entry: Entry, name: str) -> bool:
        known = self._history.of(entry.person).group
        return entry.leaf is not None and known.get((entry.leaf, shard_of(name)), name) != name

    def _is_otherwise(self, entry: Entry, group: Group) -> bool:
        known, signature = self._history.of(entry.person).signature, self._terms.signature(group.shown)
        return entry.leaf is not None and known.get(entry.leaf, signature) != signature

    def _is_even(self, group: Group, entries: Sequence[Entry]) -> bool:
        counts = Counter(entry.leaf for entry in entries)
        return counts.keys() == self._terms.signature(group.shown) and len(set(counts.values())) == 1
