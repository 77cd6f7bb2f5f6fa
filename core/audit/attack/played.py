"""The attacks on values that last, played on every table that is audited: persistence, worlds, neighbours, duration.

The auditor shows each release to an `Attacker`, with the membership and the truth, and asks for the report at the end.
The same persistence attack is played on naive groups of the same people, for comparison. In a redrawn table nothing is
promised about it; in a lasting one no more than 1/l of the claims may be right, but for chance.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from shoal.core.audit.attack.duration import Duration, Lasted
from shoal.core.audit.attack.following import Followed, Following
from shoal.core.audit.attack.neighbours import Insight, Neighbours
from shoal.core.audit.attack.persistence import Claims, PersistenceAttack
from shoal.core.audit.attack.shown import ShownGroup, tokens_by_node
from shoal.core.audit.attack.small_table import Enumerated, Row, SmallTable
from shoal.core.audit.attack.worlds import Token
from shoal.core.audit.criteria.lasting.terms import Kind, Terms
from shoal.core.audit.reading.epochs import Gained
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.truth import exact
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.policy import Policy

CLAIMS = "more claims of the persistence attack are right than 1/l of them, and not by chance"
INSIDERS = "insiders whom the policy allows for could be surer of somebody's value than 1/l"
WORLDS = "possible worlds, counted one by one, tell more than is promised"
_WIDTH = 52


class Played(NamedTuple):
    """What came of it, on these releases and on naive ones. The rest is for lasting tables.

    `insider` is what the best placed people of the table could learn at most, of whom the policy allows for `insiders`;
    `followed` is what changes of values tell, `lasted` how long they stay; `worlds` is None where the table is too
    large to count.
    """

    is_promised: bool
    bound: Fraction
    here: tuple[Claims, ...]
    naive: tuple[Claims, ...]
    insider: Insight | None = None
    followed: Followed | None = None
    lasted: Lasted | None = None
    worlds: Enumerated | None = None
    insiders: int = 0

    def broken(self) -> tuple[str, ...]:
        """The sentences of what is promised and not kept."""
        if not self.is_promised:
            return ()
        is_over = not all(claims.is_within(self.bound) for claims in self.here)
        is_told = self.worlds is not None and not self.worlds.is_kept(self.bound, self.insiders)
        is_near = self.insider is not None and 0 < self.insider.insiders <= self.insiders and self.insider.over > 0
        return (CLAIMS,) * is_over + (INSIDERS,) * is_near + (WORLDS,) * is_told

    def as_json(self) -> dict[str, Any]:
        return {
            "promised": self.is_promised,
            "here": [claims.as_json(self.bound) for claims in self.here],
            "naive": [claims.as_json(self.bound) for claims in self.naive],
            "insider": None if self.insider is None else self.insider.as_json(),
            "followed": None if self.followed is None else self.followed.as_json(),
            "duration": None if self.lasted is None else self.lasted.as_json(),
            "worlds": None if self.worlds is None else self.worlds.as_json(),
        }


class TableAttack:
    """Plays the attacks on releases of Shoal's, of either model, given who is in which row."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._terms = policy, Terms(policy)
        self._is_lasting = policy.values == "lasting"
        leaves = len(policy.sensitive.hierarchy.leaves)
        self._persistence = PersistenceAttack(leaves, is_by_person=not self._is_lasting)
        self._neighbours, self._duration = Neighbours(policy.l, policy.insiders), Duration(leaves)

    def see(
        self, groups: Iterable[tuple[str, Mapping[int, int], Sequence[Row]]], held: Mapping[str, frozenset[int]]
    ) -> dict[Kind, list[tuple[str, Mapping[Token, int], Sequence[Row]]]]:
        """Takes the next release: of each group its name, its counts by node, and its rows.

        `held` is the truth about everyone present. Returns the groups by kind; a redrawn table has one kind.
        """
        found: dict[Kind, list[tuple[str, Mapping[Token, int], Sequence[Row]]]] = {kind: [] for kind in Kind}
        for name, shown, rows in groups:
            kind = self._terms.kind_of(shown) if self._is_lasting else Kind.SIGNATURE
            found[kind].append((name, tokens_by_node(self._policy.sensitive.hierarchy, shown), rows))
        listed = {
            kind: [ShownGroup(name, [row[0] for row in rows], shown, kind is Kind.PLAIN) for name, shown, rows in some]
            for kind, some in found.items()
        }
        self._persistence.see((group for some in listed.values() for group in some), held)
        if self._is_lasting:
            self._neighbours.see(found[Kind.SIGNATURE])
            self._duration.see(found[Kind.SIGNATURE], held)
        return found

    def claims(self) -> tuple[Claims, ...]:
        return self._persistence.claims(1 / self._policy.l, self._policy.sensitive.open)

    def insight(self) -> Insight | None:
        """What the best placed insiders could learn; None in a redrawn table."""
        return self._neighbours.result() if self._is_lasting else None

    def lasted(self) -> Lasted | None:
        """What is claimed from how long values stay; None in a redrawn table."""
        return self._duration.result(self._policy.l) if self._is_lasting else None


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
        self._here, self._naive = TableAttack(policy), NaiveAttack(policy)
        self._small = SmallTable(policy.l, policy.insiders)
        self._following, self._gained = Following(), Gained(policy)

    def see(self, release: Published, secrets: Secrets, naive: Sequence[Sequence[str]]) -> None:
        """Takes the next release; `naive` are groups of the same people that show everything."""
        held = {person: record.values for person, record in secrets.table.items()}
        is_lasting = self._policy.values == "lasting"
        rows: Mapping[str, Sequence[Row]] = (
            secrets.entries
            if is_lasting
            else {name: [(person, None) for person in people] for name, people in secrets.people.items()}
        )
        groups = self._here.see(((name, release.groups[name].shown, some) for name, some in rows.items()), held)
        self._naive.see(naive, held)
        if is_lasting:
            signatures, plain = groups[Kind.SIGNATURE], groups[Kind.PLAIN]
            cliques = ((next(iter(shown)), [row[0] for row in rows]) for _, shown, rows in groups[Kind.CLIQUE])
            self._gained.see(release.epoch, release.number)
            came = [leaf for leaf, number in self._gained.since.items() if number == release.number]
            self._small.see(signatures + plain, cliques, held, came, secrets.erased)
            self._following.see(((shown, rows) for _, shown, rows in signatures), held)

    def report(self) -> Played:
        """Plays the attack to its end. Costs what `PersistenceAttack` says, twice."""
        is_lasting, bound = self._policy.values == "lasting", 1 / exact(self._policy.l)
        played = Played(is_lasting, bound, self._here.claims(), self._naive.claims())
        if not is_lasting:
            return played
        return played._replace(
            insider=self._here.insight(),
            followed=self._following.result(self._policy.l),
            lasted=self._here.lasted(),
            worlds=self._small.count(),
            insiders=self._policy.insiders,
        )


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
        yield _write_insider(played.insider, played.insiders, bound)
    if played.lasted is not None:
        lasted = played.lasted
        yield (
            f"  Not promised: somebody who knows how long each value lasts claims a value of {lasted.over:,} of "
            f"{lasted.people:,} people with more than {bound}, {lasted.over_right:,} of them right, and of "
            f"{lasted.sure:,} with more than 0.9, {lasted.sure_right:,} right."
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
            f"spells are not 1/m each, and the likeliest value of anybody has {float(worlds.uneven.largest):.4f}"
            + "".join(f", {float(one.largest):.4f} to any {one.insiders} of the table" for one in worlds.insiders)
            + "."
        )


def _write_insider(insider: Insight, promised: int, bound: str) -> str:
    who = "a neighbour, who knows their own values," if insider.insiders == 1 else f"any {insider.insiders} neighbours"
    return (
        f"  {'Promised' if promised else 'Not promised'}: {who} may be sure of somebody else's with "
        f"{float(insider.largest):.2f} at most; over {bound} for {insider.over:,} of {insider.people:,} people."
    )


def _claims(claims: Claims, bound: str) -> str:
    return f"over {bound}: {claims.over_right:,} of {claims.over:,}, over 0.9: {claims.sure_right:,} of {claims.sure:,}"
