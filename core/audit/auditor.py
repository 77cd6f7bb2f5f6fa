"""The auditor: sees a series of releases one by one, with or without secrets, and reports on every promise.

It shares nothing with the engine but the policy: no tree, no ledger, no fold, no arithmetic. What it is told it checks
against what it can work out itself, in exact fractions. What there is to check depends on the policy's model of values
(`model/redrawn.py`, `model/lasting.py`).
"""

from collections.abc import Sequence

from shoal.core.audit.attack.attacks import Inference, IntersectionAttack, LocalAttack, Unsafe, unsafe_rows
from shoal.core.audit.attack.played import Attacker
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.model.lasting import LastingModel
from shoal.core.audit.model.model import Model
from shoal.core.audit.model.redrawn import RedrawnModel
from shoal.core.audit.reading.epochs import Epochs
from shoal.core.audit.reading.published import Published, ReleaseReader
from shoal.core.audit.reading.together import Stored
from shoal.core.audit.reading.truth import Truth
from shoal.core.audit.reading.view import Cohorts, Line, Secrets
from shoal.core.audit.report.report import Attacks, PrivateFigures, Report
from shoal.core.policy.policy import Policy

Members = Sequence[Line | tuple[str, str, str] | tuple[str, str, str, str | None]]


class Auditor:
    """Audits one table. Give each release to `see` in order, then ask for the `report`.

    `previous` are the policies that it had before this one, the first first.
    """

    def __init__(self, policy: Policy, previous: Sequence[Policy] = ()) -> None:
        self._policy = policy
        self.findings = Findings()
        self.epochs = Epochs([*previous, policy])
        self._reader = ReleaseReader(policy, self.findings, self.epochs)
        self.model: Model = LastingModel(policy) if policy.values == "lasting" else RedrawnModel(policy)
        self._last: Published | None = None
        self._last_secrets: Secrets | None = None
        self._releases = 0
        self._people: set[str] = set()
        self._notes: dict[str, None] = {}
        self._inference, self._unsafe = Inference(), Unsafe(0, 0)
        self._local, self._intersection = LocalAttack(policy), IntersectionAttack(policy)
        self._attacker = Attacker(policy)

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
        for public in self.model.public:
            public.see(release, self.findings)
        self._last = release
        if members is None or truth is None:
            return
        lines = [Line(*member) for member in members]
        placed = self.model.place(release, lines, truth.present)
        secrets = Secrets(
            lines,
            placed.homes,
            placed.places,
            placed.people,
            truth.present,
            truth.since,
            truth.guarded_since,
            at,
            truth.registered,
            truth.extinct,
            truth.held,
            cohorts or {},
            truth.others,
            placed.entries,
            placed.lines,
            truth.erased,
        )
        for private in self.model.private:
            private.see(release, secrets, self.findings)
        self._last_secrets = secrets
        self._people |= placed.homes.keys()
        self._attack(release, secrets)

    def note(self, sentence: str) -> None:
        """Something worth knowing that breaks no promise."""
        self._notes[sentence] = None

    def _attack(self, release: Published, secrets: Secrets) -> None:
        """Measures the attacks on this release, and on naive releases of the same table."""
        regions = {person: release.regions[cell] for person, cell in secrets.homes.items()}
        inferred = self._inference.see(regions, secrets.since)
        self._unsafe = Unsafe(len(inferred), unsafe_rows(inferred, self._policy.k))
        self._intersection.see(secrets.table, secrets.since)
        naive = self._local.see(release.number, secrets.table)
        self.model.attack(release, secrets, naive)
        self._attacker.see(release, secrets, naive)

    def report(self, key: bytes) -> Report:
        """What was found. `key` keeps the pseudonyms of the worst ten from being anyone else's."""
        figures, public = self._figures(key), self.model.public_figures()
        return Report(self._policy, self._releases, self.findings, tuple(self._notes), public, figures)

    def _figures(self, key: bytes) -> PrivateFigures | None:
        release, secrets = self._last, self._last_secrets
        if release is None or secrets is None:
            return None
        played = self._attacker.report()
        for sentence in played.broken():
            self.findings.say(Promise.G2, sentence, release.number)
        attacks = Attacks(self._local.result(), self._intersection.result, self._unsafe, played)
        return self.model.private_figures(key, release, secrets, len(self._people), attacks)


__all__ = ["Auditor", "Promise", "Stored"]
