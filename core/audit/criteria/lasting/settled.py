"""S4, even at entry, as anyone can see it: what a group of a lasting table shows, and that it never shows more.

docs/design.md, "Values that last" (after m-invariance, Xiao and Tao 2007). A group is a signature, each of its values
equally often, or plain, starred or a clique. A signature is complete when it is formed, and nobody ever joins it: its
counts stay, and its rows and `vacant` always add up to them. A group whose rows are all gone has no record, and is the
same group when a row comes back; its id is never another group's.
"""

from typing import Final

from shoal.core.audit.criteria.carrying import NOT_FINER, NOT_THE_SAME, USED_AGAIN, are_finer
from shoal.core.audit.criteria.lasting.terms import STAR, Kind, Signature, Terms
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Group, Published

UNEQUAL: Final = "S4: a group does not show each value of its signature equally often"
UNCOUNTED: Final = "S4: a group does not show as many values as it has rows and vacant places"
INCOMPLETE: Final = "S4: a group is vacant when it is formed"
OTHER_VALUES: Final = "S4: a group shows other values than when it was formed"
BARE_VACANT: Final = "a group without a signature has vacant places"
TOO_SMALL: Final = "a signature has fewer values than the policy asks for"
STAR_AMONG: Final = 'a group shows "*" beside other values'
INNER_NODE: Final = "a signature holds a node that is no value"
OPEN_AMONG: Final = "a signature holds an open value"
PERMANENT_AMONG: Final = "a signature holds permanent values and others"
CLIQUE: Final = "a clique's group does not show its value once for at least l + insiders rows"
FORMED: Final = "a group says it was formed in a release that does not have it"
ORDER: Final = "a group says it changed before it was formed, or later than now"
OTHER_FORMED: Final = "a group says it was formed in another release than it said before"
CAME_BACK: Final = "a group that the release before does not have says that it did not change"


class Settled:
    """Follows every group by its id. `permanent_shown` counts how often cliques show permanent values."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._first: dict[str, Group] = {}  # as they were when they were formed
        self._last: dict[str, Group] = {}
        self.signatures: set[Signature] = set()
        self.permanent_shown = 0
        self.values: dict[Kind, int] = dict.fromkeys(Kind, 0)  # with a row in the last release

    def see(self, release: Published, findings: Findings) -> None:
        self.values = dict.fromkeys(Kind, 0)
        for name, group in release.groups.items():
            kind = self._terms.kind(group)
            self.values[kind] += sum(group.shown.values()) - group.vacant
            for promise, sentence in self._wrong(kind, group, release.number):
                findings.say(promise, sentence, release.number, name)
            date = self._wrong_dates(release.number, group)
            if date is not None:
                findings.say(Promise.G6, date, release.number, name)
            self._first.setdefault(name, group)
        self._last = dict(release.groups)

    def _wrong(self, kind: Kind, group: Group, number: int) -> list[tuple[Promise, str]]:
        values = sum(group.shown.values())
        if kind is Kind.CLIQUE:
            self.permanent_shown += values
            is_right = values == 1 and group.rows >= self._terms.clique and not group.vacant
            return [] if is_right else [(Promise.G3, CLIQUE)]
        found = [(Promise.G2, UNCOUNTED)] if values != group.rows + group.vacant else []
        if kind is not Kind.SIGNATURE:
            return found + [(Promise.G2, BARE_VACANT)] * bool(group.vacant)
        self.signatures.add(self._terms.signature(group.shown))
        wrong = {
            UNEQUAL: len(set(group.shown.values())) > 1,
            INCOMPLETE: group.formed == number and group.vacant > 0,
            OTHER_VALUES: self._first.get(group.name, group).shown != group.shown,
            **self._wrong_signature(group),
        }
        return found + [(Promise.G2, sentence) for sentence, is_so in wrong.items() if is_so]

    def _wrong_signature(self, group: Group) -> dict[str, bool]:
        terms, leaves = self._terms, self._terms.signature(group.shown)
        return {
            STAR_AMONG: STAR in group.shown,
            INNER_NODE: any(terms.is_inner(node) for node in group.shown),
            TOO_SMALL: len(group.shown) < terms.m,
            OPEN_AMONG: bool(leaves & terms.open),
            PERMANENT_AMONG: bool(leaves & terms.permanent) and not leaves <= terms.permanent,
        }

    def _wrong_dates(self, number: int, group: Group) -> str | None:
        first, before = self._first.get(group.name), self._last.get(group.name)
        if not group.formed <= group.changed <= number:
            return ORDER
        if first is None:
            return None if group.formed == number else FORMED
        if group.formed != first.formed:
            return USED_AGAIN if group.formed == number else OTHER_FORMED
        if group.changed == number:
            return None
        if before is None:
            return CAME_BACK
        if (group.changed, group.shown, group.rows) != (before.changed, before.shown, before.rows):
            return NOT_THE_SAME
        return None if are_finer(before.cells, group.cells) else NOT_FINER
