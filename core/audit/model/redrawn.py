"""What is checked in a redrawn table: values at different formations are independent (docs/design.md, "G2 Global")."""

from collections.abc import Mapping, Sequence

from shoal.core.audit.attack.attacks import Persistence
from shoal.core.audit.criteria.bounds import Bounds
from shoal.core.audit.criteria.carrying import CarriedGroups, ChangedPeople
from shoal.core.audit.criteria.cases import CaseIds
from shoal.core.audit.criteria.cells import Places, Regions
from shoal.core.audit.criteria.coins import Coins
from shoal.core.audit.criteria.composition import Composition, Exposed
from shoal.core.audit.criteria.counts import Counts
from shoal.core.audit.criteria.exposure import Exposures
from shoal.core.audit.criteria.guards import Guards
from shoal.core.audit.criteria.linking import Linking
from shoal.core.audit.criteria.values import ShownValues
from shoal.core.audit.model.model import Placed
from shoal.core.audit.permanent.cohorts import ScarceGroups
from shoal.core.audit.permanent.learned import list_worst
from shoal.core.audit.permanent.permanent import Permanent
from shoal.core.audit.permanent.scarcity import describe
from shoal.core.audit.reading.chain import Chain
from shoal.core.audit.reading.members import Membership, place_members
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.truth import Record
from shoal.core.audit.reading.view import Line, PrivateCriterion, PublicCriterion, Secrets
from shoal.core.audit.report.report import Attacks, PrivateFigures, PublicFigures
from shoal.core.policy.policy import Policy


class RedrawnModel:
    """The criteria of a redrawn table."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.exposures = Exposures(policy.sensitive)
        self._bounds = Bounds(policy)
        self._linking, self._guards = Linking(policy, self.exposures), Guards(policy, self.exposures)
        self._composition = Composition(policy)
        self._scarce, self.permanent = ScarceGroups(policy), Permanent(policy)
        self.public: list[PublicCriterion] = [
            Chain(policy), Counts(policy), Regions(), CarriedGroups(), self._bounds, self._scarce,
        ]  # fmt: skip
        self.private: list[PrivateCriterion] = [
            Membership(), ShownValues(policy), Places(),
            ChangedPeople(self._composition.is_unsafe, self._scarce.nodes), CaseIds(policy),
            self._linking, self._guards, self._composition, Coins(policy), self.permanent,
        ]  # fmt: skip
        self._beside: tuple[Exposed, Exposed] | None = None
        self._persistence, self._naive_persistence = Persistence(policy), Persistence(policy)

    def place(self, release: Published, members: Sequence[Line], table: Mapping[str, Record]) -> Placed:
        places, people = place_members(release, members, table)
        return Placed({person: cell for person, (_, cell) in places.items()}, places, people, {}, {})

    def attack(self, release: Published, secrets: Secrets, naive: Sequence[Sequence[str]]) -> None:
        table, bits = secrets.table, self._persistence.bits
        shown = {name: bits(group.shown) for name, group in release.groups.items()}
        self._persistence.see(((people, shown[name]) for name, people in secrets.people.items()), table)
        leaf_node = self._policy.sensitive.hierarchy.leaf_node
        held = [(people, {leaf_node[v] for person in people for v in table[person].values}) for people in naive]
        self._naive_persistence.see(((people, bits(nodes)) for people, nodes in held), table)
        if self._composition.is_asked:
            ours = ((people, release.groups[name].shown) for name, people in secrets.people.items())
            self._beside = self._composition.attack(held, table), self._composition.attack(ours, table)

    def public_figures(self) -> PublicFigures:
        return PublicFigures(self._bounds.largest_share, self._bounds.most, self._scarce.shown)

    def private_figures(
        self, key: bytes, release: Published, secrets: Secrets, people: int, attacks: Attacks
    ) -> PrivateFigures:
        rows = {person: release.rows[cell] for person, cell in secrets.homes.items()}
        guards = self._guards
        nearest = max(
            (s.breach / s.bound for s in self.exposures.worst.values() if s.is_guarded and not s.is_earlier),
            default=None,
        )
        return PrivateFigures(
            people,
            self._linking.largest,
            len(guards.people),
            len(guards.unguarding),
            nearest,
            tuple(list_worst(self.exposures, key, rows, self._persistence)),
            attacks._replace(
                naive_pinned=self._naive_persistence.result(), pinned=self._persistence.result(), beside=self._beside
            ),
            describe(self.permanent, key) if self._policy.sensitive.permanent else None,
        )
