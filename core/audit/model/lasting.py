"""What is checked in a lasting table: settled groups by S1 to S4, "*", plain values, guards, cliques and blocks.

docs/design.md, "Values that last". `History` is not a criterion of its own: those after it ask it what was ever shown.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from heapq import nlargest

from shoal.core.audit.criteria.cells import Places, Regions
from shoal.core.audit.criteria.coins import Coins
from shoal.core.audit.criteria.composition import Composition, Exposed
from shoal.core.audit.criteria.counts import Counts
from shoal.core.audit.criteria.lasting.blocks import Blocks
from shoal.core.audit.criteria.lasting.breach import Breaches, LastingBounds
from shoal.core.audit.criteria.lasting.cliques import Cliques
from shoal.core.audit.criteria.lasting.disjoint import Disjoint
from shoal.core.audit.criteria.lasting.entries import Entries
from shoal.core.audit.criteria.lasting.few import Few
from shoal.core.audit.criteria.lasting.guards import LastingGuards
from shoal.core.audit.criteria.lasting.history import History
from shoal.core.audit.criteria.lasting.marks import Marks
from shoal.core.audit.criteria.lasting.plain import Plain
from shoal.core.audit.criteria.lasting.rounds import Rounds
from shoal.core.audit.criteria.lasting.same import SameEntries
from shoal.core.audit.criteria.lasting.settled import Settled
from shoal.core.audit.criteria.lasting.stars import PublicWaiting, Stars
from shoal.core.audit.criteria.lasting.terms import Kind, Terms
from shoal.core.audit.criteria.lasting.young import Young
from shoal.core.audit.model.model import Placed
from shoal.core.audit.permanent.learned import LISTED, pseudonym
from shoal.core.audit.reading.chain import Chain
from shoal.core.audit.reading.members import place_entries
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.truth import Record
from shoal.core.audit.reading.view import Line, PrivateCriterion, PublicCriterion, Secrets
from shoal.core.audit.report.lasting import CliqueFigures, Lasting, LastingWorst
from shoal.core.audit.report.report import Attacks, PrivateFigures, PublicFigures
from shoal.core.policy.policy import Policy


class LastingModel:
    """The criteria of a lasting table."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._terms = policy, Terms(policy)
        history = self._history = History(self._terms)
        self._settled = Settled(self._terms)
        self._bounds, self._breaches = LastingBounds(self._settled, history), Breaches(history)
        self._guards, self._cliques = LastingGuards(policy, history), Cliques(policy, history)
        self._marks = Marks(self._terms)
        self._blocks, self._composition = Blocks(policy, history), Composition(policy)
        self.public: list[PublicCriterion] = [
            Chain(policy), Counts(policy), Regions(), self._settled, self._bounds, PublicWaiting(),
        ]  # fmt: skip
        self.private: list[PrivateCriterion] = [
            Entries(policy, self._terms), Places(), SameEntries(), Coins(policy),
            history, Rounds(history), Young(policy, history), Disjoint(history), Few(history), Plain(history),
            self._breaches, self._guards, self._cliques, self._marks, self._blocks, Stars(history, self._blocks),
        ]  # fmt: skip
        self._beside: tuple[Exposed, Exposed] | None = None

    def place(self, release: Published, members: Sequence[Line], table: Mapping[str, Record]) -> Placed:
        lines, entries = place_entries(release, members, table, self._policy.sensitive.hierarchy)
        people = {name: [entry.person for entry in listed] for name, listed in entries.items()}
        return Placed({person: rows[0].cell for person, rows in lines.items()}, {}, people, entries, lines)

    def attack(self, release: Published, secrets: Secrets, naive: Sequence[Sequence[str]]) -> None:
        if not self._blocks.is_asked:
            return
        table, leaf_node = secrets.table, self._policy.sensitive.hierarchy.leaf_node
        self._composition.look(secrets.others)
        held = ((people, {leaf_node[v] for p in people for v in table[p].values}) for people in naive)
        ours = (
            (people, release.groups[name].shown)
            for name, people in secrets.people.items()
            if self._terms.kind(release.groups[name]) is Kind.SIGNATURE
        )
        self._beside = self._composition.attack(held, table), self._composition.attack(ours, table)

    def public_figures(self) -> PublicFigures:
        sizes = {len(signature) for signature in self._settled.signatures}
        share = Fraction(1, min(sizes)) if sizes else Fraction(0)
        return PublicFigures(share, self._bounds.most, self._settled.permanent_shown)

    def private_figures(
        self, key: bytes, release: Published, secrets: Secrets, people: int, attacks: Attacks
    ) -> PrivateFigures:
        alike = {person: release.people[cell] for person, cell in secrets.homes.items()}
        named = ((pseudonym(key, person), person, worst) for person, worst in self._breaches.worst.items())
        listed = nlargest(LISTED, named, key=lambda one: (one[2].breach, one[2].values, one[0]))
        nearest = max((one.sum / one.bound for one in self._guards.nearest.values()), default=None)
        sizes = [len(signature) for signature in self._settled.signatures]
        cliques = self._cliques.shown
        return PrivateFigures(
            people,
            self._breaches.most,
            len(self._guards.people),
            len(self._guards.unguarding),
            nearest,
            (),
            attacks._replace(beside=self._beside),
            None,
            Lasting(
                {str(kind.value): count for kind, count in self._settled.values.items()},
                len(sizes),
                (min(sizes), max(sizes)) if sizes else None,
                CliqueFigures(
                    len(cliques),
                    min((len(clique.people) for clique in cliques), default=None),
                    self._cliques.hidden,
                    self._marks.result(),
                ),
                tuple(
                    LastingWorst(name, worst.breach, worst.values, worst.size, alike.get(person))
                    for name, person, worst in listed
                ),
            ),
        )
