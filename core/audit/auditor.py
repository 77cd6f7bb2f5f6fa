"""The auditor: sees a series of releases one by one, with or without secrets, and reports on every promise.

It shares nothing with the engine but the policy: no tree, no ledger, no fold, no arithmetic. What it is told it checks
against what it can work out itself, in exact fractions.
"""

from collections.abc import Sequence

from shoal.core.audit.attack.attacks import Inference, IntersectionAttack, LocalAttack, Persistence, Unsafe, unsafe_rows
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
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.permanent.cohorts import ScarceGroups
from shoal.core.audit.permanent.learned import list_worst
from shoal.core.audit.permanent.permanent import Permanent
from shoal.core.audit.permanent.scarcity import describe
from shoal.core.audit.reading.chain import Chain
from shoal.core.audit.reading.members import Membership, place_members
from shoal.core.audit.reading.published import Published, ReleaseReader, Stored
from shoal.core.audit.reading.truth import Truth
from shoal.core.audit.reading.view import Cohorts, PrivateCriterion, PublicCriterion, Secrets
from shoal.core.audit.report.report import Attacks, PrivateFigures, PublicFigures, Report
from shoal.core.policy.policy import Policy

Members = Sequence[tuple[str, str, str]]


class Auditor:
    """Audits one table. Give each release to `see` in order, then ask for the `report`."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.findings = Findings()
        self._reader = ReleaseReader(policy, self.findings)
        self._exposures = Exposures(policy.sensitive)
        self._bounds = Bounds(policy)
        self._linking, self._guards = Linking(policy, self._exposures), Guards(policy, self._exposures)
        self._composition = Composition(policy)
        self._scarce, self._permanent = ScarceGroups(policy), Permanent(policy)
        self._public: list[PublicCriterion] = [
            Chain(policy), Counts(policy), Regions(policy), CarriedGroups(), self._bounds, self._scarce,
        ]  # fmt: skip
        self._private: list[PrivateCriterion] = [
            Membership(), ShownValues(policy), Places(),
            ChangedPeople(self._composition.is_unsafe, self._scarce.nodes), CaseIds(policy),
            self._linking, self._guards, self._composition, Coins(policy), self._permanent,
        ]  # fmt: skip
        self._beside: tuple[Exposed, Exposed] | None = None
        self._last: Published | None = None
        self._last_secrets: Secrets | None = None
        self._releases = 0
        self._people: set[str] = set()
        self._notes: dict[str, None] = {}
        self._inference, self._unsafe = Inference(), Unsafe(0, 0)
        self._persistence, self._naive_persistence = Persistence(policy), Persistence(policy)
        self._local, self._intersection = LocalAttack(policy), IntersectionAttack(policy)

    def see(
        self,
        stored: Stored,
        members: Members | None = None,
        truth: Truth | None = None,
        at: str | None = None,
        cohorts: Cohorts | None = None,
    ) -> None:
        """Checks the next release; with its membership, cohorts and the truth at that moment, against those too."""
        release = self._reader.read(stored)
        self._releases += 1
        for name in release.added:
            self._notes[f"manifests have a field {name!r} that this audit knows nothing about."] = None
        for public in self._public:
            public.see(release, self.findings)
        self._last = release
        if members is None or truth is None:
            return
        places, people = place_members(release, members, truth.present)
        secrets = Secrets(
            members,
            places,
            people,
            truth.present,
            truth.since,
            truth.guarded_since,
            at,
            truth.registered,
            truth.extinct,
            truth.held,
            cohorts or {},
            truth.others,
        )
        for private in self._private:
            private.see(release, secrets, self.findings)
        self._last_secrets = secrets
        self._people |= places.keys()
        self._attack(release, secrets)

    def note(self, sentence: str) -> None:
        """Something worth knowing that breaks no promise."""
        self._notes[sentence] = None

    def _attack(self, release: Published, secrets: Secrets) -> None:
        """Measures the attacks on this release, and on naive releases of the same table."""
        table, since = secrets.table, secrets.since
        regions = {person: release.regions[cell] for person, (_, cell) in secrets.places.items()}
        inferred = self._inference.see(regions, since)
        self._unsafe = Unsafe(len(inferred), unsafe_rows(inferred, self._policy.k))
        shown = {name: self._persistence.bits(group.shown) for name, group in release.groups.items()}
        self._persistence.see(((people, shown[name]) for name, people in secrets.people.items()), table)
        leaf_node = self._policy.sensitive.hierarchy.leaf_node
        naive = self._local.see(release.number, table)
        self._naive_persistence.see(
            (
                (people, self._persistence.bits(leaf_node[leaf] for person in people for leaf in table[person].values))
                for people in naive
            ),
            table,
        )
        self._intersection.see(table, since)
        if self._composition.is_asked:
            held = ((people, {leaf_node[v] for p in people for v in table[p].values}) for people in naive)
            ours = ((people, release.groups[name].shown) for name, people in secrets.people.items())
            self._beside = self._composition.attack(held, table), self._composition.attack(ours, table)

    def report(self, key: bytes) -> Report:
        """What was found. `key` keeps the pseudonyms of the worst ten from being anyone else's."""
        bounds = PublicFigures(self._bounds.largest_share, self._bounds.most, self._scarce.shown)
        return Report(self._policy, self._releases, self.findings, tuple(self._notes), bounds, self._figures(key))

    def _figures(self, key: bytes) -> PrivateFigures | None:
        release, secrets = self._last, self._last_secrets
        if release is None or secrets is None:
            return None
        rows = {person: release.rows[cell] for person, (_, cell) in secrets.places.items()}
        guards = self._guards
        nearest = max(
            (s.breach / s.bound for p, s in self._exposures.worst.items() if s.is_guarded and not s.is_earlier),
            default=None,
        )
        return PrivateFigures(
            len(self._people),
            self._linking.largest,
            len(guards.people),
            len(guards.unguarding),
            nearest,
            tuple(list_worst(self._exposures, key, rows, self._persistence)),
            Attacks(
                self._local.result(),
                self._intersection.result,
                self._unsafe,
                self._naive_persistence.result(),
                self._persistence.result(),
                self._beside,
            ),
            describe(self._permanent, key) if self._policy.sensitive.permanent else None,
        )


__all__ = ["Auditor", "Promise", "Stored"]
