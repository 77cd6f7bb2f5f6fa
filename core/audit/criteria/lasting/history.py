"""What was ever shown of everyone: the signature and the group of each value, and the values shown plainly.

All criteria about people ask it. A *sighting* is a row of this release that stands for a value. While criteria look at
a release, `now` has its sightings and `of` what was known before it; the next release adds them. A spell is a value of
a person from one release on; absence ends it, being withheld or "*" does not, and nothing but an erasure ends that of a
permanent value (docs/design.md, "Values that last").

No group reaches across shards: somebody who moves to another one has another group there, with the same signature, and
yet another one if they come back. Of somebody erased the engine forgets which values were shown, and so must the rules:
a value that comes back is another one, in another group.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from shoal.core.audit.criteria.lasting.terms import Kind, Signature, Terms
from shoal.core.audit.finding import Findings
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.together import shard_of
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
    """What was shown of one person."""

    signature: dict[int, Signature] = field(default_factory=dict, repr=False)  # of each value
    group: dict[tuple[int, int], str] = field(default_factory=dict, repr=False)  # of each value in each shard
    values: dict[Signature, set[int]] = field(default_factory=dict, repr=False)  # a number below 0 is a forgotten one
    plain: set[int] = field(default_factory=set, repr=False)

    def add(self, seen: Sighting) -> None:
        if seen.kind is Kind.PLAIN:
            self.plain.add(seen.leaf)
        elif seen.signature is not None:
            self.signature.setdefault(seen.leaf, seen.signature)
            self.group.setdefault((seen.leaf, shard_of(seen.group)), seen.group)
            self.values.setdefault(seen.signature, set()).add(seen.leaf)

    def forget(self, held: Collection[int]) -> None:
        """Forgets which values were shown, but for those that are held throughout."""
        self.signature = {leaf: signature for leaf, signature in self.signature.items() if leaf in held}
        self.group = {(leaf, shard): group for (leaf, shard), group in self.group.items() if leaf in held}
        for values in self.values.values():
            gone = {leaf for leaf in values if leaf >= 0 and leaf not in held}
            values -= gone
            values |= {-1 - len(values) - turn for turn in range(len(gone))}


_NOTHING = Known()


class History:
    """Everyone's, kept up to date. Must see a release before the criteria that ask it."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.people: dict[str, Known] = {}
        self.now: dict[str, list[Sighting]] = {}  # by person: the rows of this release that stand for a value
        self.spells: Mapping[str, Mapping[int, int]] = {}  # by person and value: the release that it began with
        self._lasting: dict[tuple[str, int], int] = {}  # of permanent values: since when

    def of(self, person: str) -> Known:
        """What was shown of somebody before this release; not to be changed."""
        return self.people.get(person, _NOTHING)

    def fresh(self, person: str) -> list[Sighting]:
        """What is shown of somebody under a signature for the first time."""
        known = self.of(person).signature
        return [one for one in self.now.get(person, ()) if one.signature is not None and one.leaf not in known]

    def after(self, person: str) -> Mapping[Signature, set[int]]:
        """The values that were shown of somebody with this release, by signature."""
        found = {signature: set(values) for signature, values in self.of(person).values.items()}
        for seen in self.now.get(person, ()):
            if seen.signature is not None:
                found.setdefault(seen.signature, set()).add(seen.leaf)
        return found

    def see(self, release: Published, secrets: Secrets, _: Findings) -> None:
        for person, seen in self.now.items():
            known = self.people.setdefault(person, Known())
            for one in seen:
                known.add(one)
        self.now = {}
        self._forget(secrets)
        self._follow_moves(release, secrets)
        self._follow_spells(release.number, secrets)
        for name, entries in secrets.entries.items():
            group = release.groups[name]
            kind = self.terms.kind(group)
            if kind is Kind.CLIQUE:
                continue
            signature = self.terms.signature(group.shown) if kind is Kind.SIGNATURE else None
            for person, leaf in entries:
                spell = None if leaf is None else self.spells[person].get(leaf)
                if leaf is not None and spell is not None:
                    self.now.setdefault(person, []).append(Sighting(person, leaf, spell, name, kind, signature))

    def _forget(self, secrets: Secrets) -> None:
        """Of somebody erased, values that they held before and hold now go on."""
        for person in secrets.erased:
            known, now = self.people.get(person), secrets.table.get(person)
            held = self.spells.get(person, {}).keys() & (now.values if now is not None else ())
            if known is not None:
                known.forget(held)

    def _follow_moves(self, release: Published, secrets: Secrets) -> None:
        """In a table with shards, one that somebody left remembers none of their groups, even if they come back."""
        if release.epoch.policy.shards > 1:
            for person, known in self.people.items():
                if secrets.since.get(person) == release.number:
                    known.group.clear()

    def _follow_spells(self, number: int, secrets: Secrets) -> None:
        spells: dict[str, Mapping[int, int]] = {}
        if secrets.erased:  # which ends even the spell of a permanent value, unless it is there again
            self._lasting = {
                (person, leaf): since
                for (person, leaf), since in self._lasting.items()
                if person not in secrets.erased or (person in secrets.table and leaf in secrets.table[person].values)
            }
        for person, record in secrets.table.items():
            before: Mapping[int, int] = self.spells.get(person, {})
            mine = {leaf: before.get(leaf, number) for leaf in record.values}
            for leaf in record.values & self.terms.permanent:
                mine[leaf] = self._lasting.setdefault((person, leaf), number)
            spells[person] = mine
        self.spells = spells
