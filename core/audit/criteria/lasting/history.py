"""What was ever shown of everyone: the signatures of their values, spell by spell, and the values shown plainly.

All criteria about people ask it. A *sighting* is a row of this release that stands for a value. While criteria look at
a release, `now` has its sightings and `of` what was known before it; the next release, or `settle`, adds them. A spell
is a value of a person from one release on; absence ends it, being withheld or "*" does not, and nothing but an erasure
ends that of a permanent value (docs/design.md, "Values that last").
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from shoal.core.audit.criteria.lasting.terms import Kind, Signature, Terms
from shoal.core.audit.finding import Findings
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Secrets


class Sighting(NamedTuple):
    """A value of a person in a release: where, of which spell, and under which signature (None: plainly or "*")."""

    person: str
    leaf: int
    spell: int  # the release from which on the person has it
    group: str
    kind: Kind
    signature: Signature | None


@dataclass
class Known:
    """What was shown of one person. The signature of a value is the first it was ever shown under."""

    signature: dict[int, Signature] = field(default_factory=dict, repr=False)
    plain: set[int] = field(default_factory=set, repr=False)
    values: dict[Signature, set[int]] = field(default_factory=dict, repr=False)
    spells: dict[Signature, set[tuple[int, int]]] = field(default_factory=dict, repr=False)

    def add(self, seen: Sighting) -> None:
        if seen.kind is Kind.PLAIN:
            self.plain.add(seen.leaf)
        elif seen.signature is not None:
            self.signature.setdefault(seen.leaf, seen.signature)
            self.values.setdefault(seen.signature, set()).add(seen.leaf)
            self.spells.setdefault(seen.signature, set()).add((seen.leaf, seen.spell))


_NOTHING = Known()


class History:
    """Everyone's, kept up to date. Must see a release before the criteria that ask it."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.people: dict[str, Known] = {}
        self.now: dict[str, list[Sighting]] = {}  # by person: the rows of this release that stand for a value
        self._spells: dict[str, dict[int, int]] = {}
        self._lasting: dict[tuple[str, int], int] = {}  # of permanent values: since when

    def of(self, person: str) -> Known:
        """What was shown of somebody before this release; not to be changed."""
        return self.people.get(person, _NOTHING)

    def see(self, release: Published, secrets: Secrets, _: Findings) -> None:
        self.settle()
        self._follow_spells(release.number, secrets)
        for name, entries in secrets.entries.items():
            group = release.groups[name]
            kind = self.terms.kind(group)
            if kind is Kind.CLIQUE:
                continue
            signature = frozenset(group.shown) if kind is Kind.SIGNATURE else None
            for person, leaf in entries:
                spell = None if leaf is None else self._spells[person].get(leaf)
                if leaf is not None and spell is not None:
                    seen = Sighting(person, leaf, spell, name, kind, signature)
                    self.now.setdefault(person, []).append(seen)

    def settle(self) -> None:
        """Takes the sightings of the last release for known."""
        for person, seen in self.now.items():
            known = self.people.setdefault(person, Known())
            for one in seen:
                known.add(one)
        self.now = {}

    def _follow_spells(self, number: int, secrets: Secrets) -> None:
        spells: dict[str, dict[int, int]] = {}
        if secrets.erased:  # which ends even the spell of a permanent value, unless it is there again
            self._lasting = {
                (person, leaf): since
                for (person, leaf), since in self._lasting.items()
                if person not in secrets.erased or (person in secrets.table and leaf in secrets.table[person].values)
            }
        for person, record in secrets.table.items():
            before: Mapping[int, int] = self._spells.get(person, {})
            mine = spells[person] = {leaf: before.get(leaf, number) for leaf in record.values}
            for leaf in record.values & self.terms.permanent:
                mine[leaf] = self._lasting.setdefault((person, leaf), number)
        self._spells = spells

    def after(self, person: str) -> Known:
        """What is known of somebody with this release; a copy."""
        before, found = self.of(person), Known()
        found.signature, found.plain = dict(before.signature), set(before.plain)
        found.values = {signature: set(leaves) for signature, leaves in before.values.items()}
        found.spells = {signature: set(spells) for signature, spells in before.spells.items()}
        for seen in self.now.get(person, ()):
            found.add(seen)
        return found
