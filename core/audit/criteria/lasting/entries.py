"""The rows of a lasting table against the true table: every value of everyone published, in one row, in one cell.

docs/contract.md, "Groups" and "Private files". A row stands for a value of its person; others of a clique, and a "*" of
somebody whose values all have no row, stand for none.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from shoal.core.audit.criteria.counts import PUBLISHED_AT
from shoal.core.audit.criteria.lasting.terms import Kind, Terms
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.members import NO_SUCH_PLACE, NOT_PRESENT, WITHHELD
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Entry, Secrets
from shoal.core.policy.policy import Policy

ROWS: Final = "a group's rows are not the entries in it"
PEOPLE: Final = "a cell does not say how many people it has"
TWO_CELLS: Final = "a person's rows are in two cells"
NOT_THEIRS: Final = "a row's value is not one of its person's"
TWICE: Final = "a value of a person has two rows"
NO_ROW: Final = "a value of a published person has no row"
NO_VALUE: Final = "a row stands for no value, and is neither of a clique nor all that its person has"
HIDDEN_ROW: Final = 'a permanent value that only a clique could show has a row of "*"'
UNTRUE: Final = "a row's value is not among those its group shows"
OVER_FULL: Final = "a group has more rows of a value than it shows"
NOT_AS_SHOWN: Final = "a plain group does not show its rows' values"


class Entries:
    """Checks every row and everyone who has one."""

    def __init__(self, policy: Policy, terms: Terms) -> None:
        self._terms, self._leaf_code = terms, policy.sensitive.hierarchy.leaf_code
        self._leaf_node = policy.sensitive.hierarchy.leaf_node

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        self._files(release, secrets, findings)
        kinds = {name: self._terms.kind(group) for name, group in release.groups.items()}
        own: dict[str, list[tuple[str, int | None]]] = defaultdict(list)  # rows by person, but for cliques'
        shown: dict[str, set[int]] = defaultdict(set)  # by person: the values that a clique shows
        for name, entries in secrets.entries.items():
            for person, leaf in entries:
                if kinds[name] is not Kind.CLIQUE:
                    own[person].append((name, leaf))
                elif leaf is not None:
                    shown[person].add(leaf)
            self._values(release, name, kinds[name], entries, findings)
        for person in secrets.homes:
            self._person(release.number, person, own[person], shown[person], kinds, secrets, findings)

    def _files(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        """The membership file against the records."""
        number, manifest = release.number, release.manifest
        cells = {name: {cell.name: cell.rows for cell in group.cells} for name, group in release.groups.items()}
        rows: Counter[tuple[str, str]] = Counter()
        people: dict[str, set[str]] = defaultdict(set)
        for line in secrets.members:
            findings.say(Promise.CONTRACT, NOT_PRESENT, number, times=int(line.person not in secrets.table))
            is_there = line.cell in cells.get(line.group, ())
            findings.say(Promise.CONTRACT, NO_SUCH_PLACE, number, times=int(not is_there))
            rows[line.group, line.cell] += 1
            people[line.cell].add(line.person)
        for name, listed in cells.items():
            is_wrong = any(rows[name, cell] != count for cell, count in listed.items())
            findings.say(Promise.CONTRACT, ROWS, number, name, int(is_wrong))
        for cell, count in release.people.items():
            findings.say(Promise.CONTRACT, PEOPLE, number, cell, int(len(people[cell]) != count))
        if manifest is not None:
            everyone = manifest["people"] + manifest["withheld"] + manifest["unsampled"]
            findings.say(Promise.CONTRACT, WITHHELD, number, times=int(everyone != len(secrets.table)))
            is_asked = manifest["published_at"] == secrets.at
            findings.say(Promise.CONTRACT, PUBLISHED_AT, number, times=int(not is_asked))

    def _person(
        self,
        number: int,
        person: str,
        own: list[tuple[str, int | None]],
        shown: set[int],
        kinds: Mapping[str, Kind],
        secrets: Secrets,
        findings: Findings,
    ) -> None:
        values = secrets.table[person].values
        found = Counter(leaf for _, leaf in own if leaf is not None) + Counter(shown)
        say = findings.say
        where = {line.cell for line in secrets.lines[person]}
        say(Promise.G1, TWO_CELLS, number, times=int(len(where) > 1))
        named = {line.value for line in secrets.lines[person] if line.value is not None}
        others = sum(self._leaf_code.get(value) not in values for value in named)
        say(Promise.CONTRACT, NOT_THEIRS, number, times=others)
        say(Promise.CONTRACT, TWICE, number, times=sum(count > 1 for count in found.values()))
        say(Promise.CONTRACT, NO_ROW, number, times=len(values - found.keys() - self._terms.permanent))
        for name, leaf in own:
            if leaf is None and (kinds[name] is not Kind.STARRED or len(own) > 1):
                say(Promise.CONTRACT, NO_VALUE, number, name)
            if self._terms.has_cliques and kinds[name] is Kind.STARRED and leaf in self._terms.permanent:
                say(Promise.G3, HIDDEN_ROW, number, name)

    def _values(self, release: Published, name: str, kind: Kind, entries: Sequence[Entry], findings: Findings) -> None:
        """What a group shows against its rows."""
        group, say = release.groups[name], findings.say
        if kind is Kind.STARRED or kind is Kind.CLIQUE:
            return
        nodes = [self._leaf_node[entry.leaf] for entry in entries if entry.leaf is not None]
        count = Counter(node for node in nodes if node in group.shown)
        say(Promise.G2, UNTRUE, release.number, name, len(nodes) - count.total())
        if kind is Kind.PLAIN:
            say(Promise.G2, NOT_AS_SHOWN, release.number, name, int(dict(count) != dict(group.shown)))
        else:
            is_over = any(rows > group.shown[node] for node, rows in count.items())
            say(Promise.G2, OVER_FULL, release.number, name, int(is_over))
