"""The attacks on values that last, played on every table that is audited: persistence, worlds, insiders.

The auditor shows each release to an `Attacker`, with the membership and the truth, and asks for the report at the end.
The same persistence attack is played on naive groups of the same people, for comparison. In a redrawn table nothing is
promised about it; in a lasting one no more than 1/l of the claims may be right, but for chance.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from shoal.core.audit.attack.following import Followed, Following
from shoal.core.audit.attack.insider import Changes, Insight
from shoal.core.audit.attack.persistence import Claims, PersistenceAttack
from shoal.core.audit.attack.shown import ShownGroup, tokens_by_node
from shoal.core.audit.attack.small_table import Enumerated, SmallTable
from shoal.core.audit.criteria.lasting.terms import Kind, Terms
from shoal.core.audit.reading.epochs import Gained
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.truth import exact
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.policy import Policy

CLAIMS = "more claims of the persistence attack are right than 1/l of them, and not by chance"
WORLDS = "possible worlds, counted one by one, tell more than is promised"
_WIDTH = 52


class Played(NamedTuple):
    """What came of it, on these releases and on naive ones. Insiders and worlds are for lasting tables.

    `insider` is what single changes of groups tell, `followed` what changes of values do; `worlds` is None where the
    table is too large to count.
    """

    is_promised: bool
    bound: Fraction
    here: tuple[Claims, ...]
    naive: tuple[Claims, ...]
    insider: Insight | None = None
    followed: Followed | None = None
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
            "followed": None if self.followed is None else self.followed.as_json(),
            "worlds": None if self.worlds is None else self.worlds.as_json(),
        }


class TableAttack:
    """Plays the persistence attack on releases of Shoal's, of either model, given who is in which row."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._terms = policy, Terms(policy)
        self._is_lasting = policy.values == "lasting"
        self._persistence = PersistenceAttack(len(policy.sensitive.hierarchy.leaves), is_by_person=not self._is_lasting)
        self._changes = Changes(policy.l)

    def see(
        self, groups: Iterable[tuple[str, Mapping[int, int], Sequence[str]]], held: Mapping[str, frozenset[int]]
    ) -> dict[Kind, list[ShownGroup]]:
        """Takes the next release: of each group its name, its counts by node, and the person of each row.

        `held` is the truth about everyone present. Returns the groups by kind; a redrawn table has one kind.
        """
        found: dict[Kind, list[ShownGroup]] = {kind: [] for kind in Kind}
        for name, shown, people in groups:
            kind = self._terms.kind_of(shown) if self._is_lasting else Kind.SIGNATURE
            tokens = tokens_by_node(self._policy.sensitive.hierarchy, shown)
            found[kind].append(ShownGroup(name, people, tokens, is_plain=kind is Kind.PLAIN))
        self._persistence.see((group for listed in found.values() for group in listed), held)
        if self._is_lasting:
            self._changes.see(found[Kind.SIGNATURE])
        return found

    def claims(self) -> tuple[Claims, ...]:
        return self._persistence.claims(1 / self._policy.l, self._policy.sensitive.open)

    def insight(self) -> Insight | None:
        """What the best placed insider learns from single changes; None in a redrawn table."""
        return self._changes.result() if self._is_lasting else None


class NaiveAttack:
    """Plays it on groups that show everything about their people."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._persistence = PersistenceAttack(len(policy.sensitive.hierarchy.leaves), is_by_person=True)

    def see(self, groups: Iterable[Sequence[str]], held: Mapping[str, frozenset[int]]) -> None:
        self._persistence.see(
            (ShownGroup(None, people, Counter((leaf,) for p in people for leaf in held[p])) for people in groups), held
        )

    def claims(self) -> tuple[Claims, ...]:
        return self._persistence.claims(1 / self._policy.l, self._policy.sensitive.open)


class Attacker:
    """Plays all attacks on one table, beside naive releases of it."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._here, self._naive, self._small = TableAttack(policy), NaiveAttack(policy), SmallTable(policy.l)
        self._following, self._gained = Following(), Gained(policy)

    def see(self, release: Published, secrets: Secrets, naive: Sequence[Sequence[str]]) -> None:
        """Takes the next release; `naive` are groups of the same people that show everything."""
        held = {person: record.values for person, record in secrets.table.items()}
        listed = ((name, release.groups[name].shown, people) for name, people in secrets.people.items())
        groups = self._here.see(listed, held)
        self._naive.see(naive, held)
        if self._policy.values == "lasting":
            signatures, plain = (
                [(group.shown, secrets.entries[str(group.key)]) for group in groups[kind]]
                for kind in (Kind.SIGNATURE, Kind.PLAIN)
            )
            cliques = ((next(iter(group.shown)), group.rows) for group in groups[Kind.CLIQUE])
            self._gained.see(release.epoch, release.number)
            came = [leaf for leaf, number in self._gained.since.items() if number == release.number]
            self._small.see(signatures + plain, cliques, held, came)
            self._following.see(signatures, held)

    def report(self) -> Played:
        """Plays the attack to its end. Costs what `PersistenceAttack` says, twice."""
        is_lasting, bound = self._policy.values == "lasting", 1 / exact(self._policy.l)
        played = Played(is_lasting, bound, self._here.claims(), self._naive.claims())
        if not is_lasting:
            return played
        followed, worlds = self._following.result(self._policy.l), self._small.count()
        return played._replace(insider=self._here.insight(), followed=followed, worlds=worlds)


def write_played(played: Played) -> Iterator[str]:
    """The report's lines about these attacks."""
    bound = f"{float(played.bound):.4f}".rstrip("0").rstrip(".")
    yield "What somebody claims who believes that values stay with a probability, and how often that is right:"
    yield f"  {'stay':>6}  {'these releases':<{_WIDTH}}  {'naive releases'}"
    for here, naive in zip(played.here, played.naive, strict=True):
        yield f"  {here.stay:>6g}  {_claims(here, bound):<{_WIDTH}}  {_claims(naive, bound)}"
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
    if played.followed is not None:
        yield (
            f"  Not promised: somebody who knows which value often follows which claims, with more than {bound}, to "
            f"know a value of {played.followed.over:,} of {played.followed.people:,} people who had two; "
            f"{played.followed.right:,} of these claims are right."
        )
    if played.worlds is not None:
        worlds = played.worlds
        yield (
            f"  The table is small, so its {worlds.worlds:,} possible worlds were counted: {worlds.uneven.spells} "
            f"spells are not 1/m each, and the likeliest value of anybody has {float(worlds.uneven.largest):.4f}."
        )


def _claims(claims: Claims, bound: str) -> str:
    return f"over {bound}: {claims.over_right:,} of {claims.over:,}, over 0.9: {claims.sure_right:,} of {claims.sure:,}"
