"""The attacks on values that last, played on every table that is audited: persistence, worlds, insiders.

The auditor shows each release to an `Attacker`, with the membership and the truth, and asks for the report at the end.
The same persistence attack is played on naive groups of the same people, for comparison. In a redrawn table nothing is
promised about it; in a lasting one no more than 1/l of the claims may be right, but for chance.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from shoal.core.audit.attack.insider import Changes, Insight
from shoal.core.audit.attack.persistence import Claims, PersistenceAttack
from shoal.core.audit.attack.shown import ShownGroup, tokens_by_node
from shoal.core.audit.attack.small_table import Enumerated, SmallTable
from shoal.core.audit.criteria.lasting.terms import Kind, Terms
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.truth import exact
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.policy import Policy

CLAIMS = "more claims of the persistence attack are right than 1/l of them, and not by chance"
WORLDS = "possible worlds, counted one by one, tell more than is promised"


class Played(NamedTuple):
    """What came of it, on these releases and on naive ones. Insiders and worlds are for lasting tables.

    `insider` is what single changes tell; `worlds` is None where the table is too large to count.
    """

    is_promised: bool
    bound: Fraction
    here: tuple[Claims, ...]
    naive: tuple[Claims, ...]
    insider: Insight | None = None
    worlds: Enumerated | None = None

    def broken(self) -> tuple[str, ...]:
        """The sentences of what is promised and not kept."""
        if not self.is_promised:
            return ()
        is_over = not all(claims.is_within(self.bound) for claims in self.here)
        is_told = self.worlds is not None and not self.worlds.is_kept(self.bound)
        return (CLAIMS,) * is_over + (WORLDS,) * is_told

    def as_json(self) -> dict[str, Any]:
        return {
            "promised": self.is_promised,
            "here": [claims.as_json(self.bound) for claims in self.here],
            "naive": [claims.as_json(self.bound) for claims in self.naive],
            "insider": None if self.insider is None else self.insider.as_json(),
            "worlds": None if self.worlds is None else self.worlds.as_json(),
        }


class Attacker:
    """Plays the attacks on one table."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._terms = policy, Terms(policy)
        self._is_lasting = policy.values == "lasting"
        leaves = len(policy.sensitive.hierarchy.leaves)
        self._here = PersistenceAttack(leaves, is_by_person=not self._is_lasting)
        self._naive = PersistenceAttack(leaves, is_by_person=True)
        self._changes, self._small = Changes(policy.l), SmallTable(policy.l)

    def see(self, release: Published, secrets: Secrets, naive: Sequence[Sequence[str]]) -> None:
        """Takes the next release; `naive` are groups of the same people that show everything."""
        held = {person: record.values for person, record in secrets.table.items()}
        hierarchy = self._policy.sensitive.hierarchy
        groups: dict[Kind, list[ShownGroup]] = {kind: [] for kind in Kind}
        for name, people in secrets.people.items():
            group = release.groups[name]
            kind = self._terms.kind(group) if self._is_lasting else Kind.SIGNATURE
            shown = tokens_by_node(hierarchy, group.shown)
            groups[kind].append(ShownGroup(name, people, shown, is_plain=kind is Kind.PLAIN))
        self._here.see((group for listed in groups.values() for group in listed), held)
        self._naive.see(
            (
                ShownGroup(None, people, Counter((leaf,) for person in people for leaf in held[person]))
                for people in naive
            ),
            held,
        )
        if self._is_lasting:
            self._changes.see(groups[Kind.SIGNATURE])
            shown_entries = (
                (group.shown, secrets.entries[str(group.key)])
                for kind in (Kind.SIGNATURE, Kind.PLAIN)
                for group in groups[kind]
            )
            cliques = ((next(iter(group.shown)), group.rows) for group in groups[Kind.CLIQUE])
            self._small.see(shown_entries, cliques, held)

    def report(self) -> Played:
        """Plays the attack to its end. Costs what `PersistenceAttack` says, twice."""
        bound, unprotected = 1 / exact(self._policy.l), self._policy.sensitive.open
        here, naive = (attack.claims(float(bound), unprotected) for attack in (self._here, self._naive))
        if not self._is_lasting:
            return Played(False, bound, here, naive)
        return Played(True, bound, here, naive, self._changes.result(), self._small.count())


def write_played(played: Played) -> Iterator[str]:
    """The report's lines about these attacks."""
    bound = f"{float(played.bound):.4f}".rstrip("0").rstrip(".")
    yield "What somebody claims who believes that values stay with a probability, and how often that is right:"
    yield f"  {'stay':>6}  {'these releases':<42}{'naive releases':<42}"
    for here, naive in zip(played.here, played.naive, strict=True):
        yield f"  {here.stay:>6g}  {_claims(here, bound):<42}{_claims(naive, bound):<42}".rstrip()
    if not played.is_promised:
        yield "  Nothing is promised about this: the model of a redrawn table is that values do not last."
        return
    yield f"  Promised: of the claims no more than {bound} are right, but for chance (once in a million)."
    if played.insider is not None:
        yield (
            f"  Not promised: an insider, who knows their own values, may be sure of somebody else's with "
            f"{float(played.insider.largest):.2f}; over {bound} for {played.insider.over:,} of "
            f"{played.insider.people:,} people."
        )
    if played.worlds is not None:
        worlds = played.worlds
        yield (
            f"  The table is small, so its {worlds.worlds:,} possible worlds were counted: {worlds.uneven.spells} "
            f"spells are not 1/m each, and the likeliest value of anybody has {float(worlds.uneven.largest):.4f}."
        )


def _claims(claims: Claims, bound: str) -> str:
    return f"over {bound}: {claims.over_right:,} of {claims.over:,}, over 0.9: {claims.sure_right:,} of {claims.sure:,}"
