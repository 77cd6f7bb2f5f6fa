"""G2, global: over all releases nobody without a guard is linked to a transient value beyond 1/ℓ (Wong, section 3).

breach(o, s) is taken whenever an exposure raises it, that is, when a group that shows s is formed with o in it.
Somebody whose guard was taken back may have been exposed beyond 1/ℓ while it stood; then no later group of theirs may
show s (docs/design.md, "G4 Personal", read for single values), and `max_breach` does not count what happened under the
guard alone.
"""

import math
from fractions import Fraction

from shoal.core.audit.criteria.exposure import Exposures, Standing, breach_of
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.truth import exact
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.policy import Policy

OVER = "a person's breach of a value is over 1/l"
SHOWN_AFTER = "a value is shown for somebody whose exposures to it had used up the bound before their guard changed"
WRONG_MAXIMUM = "max_breach in a manifest is not the largest breach so far"

CLOSE = 1e-9  # max_breach is stated as a float


class Linking:
    """Charges every formed group to its people, and adds up."""

    def __init__(self, policy: Policy, exposures: Exposures) -> None:
        self._sensitive, self._exposures = policy.sensitive, exposures
        self._bound = 1 / exact(policy.l)
        self.largest = Fraction(0)

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        not_asked = self._sensitive.open | self._sensitive.permanent
        for name, group in release.groups.items():
            if group.formed != release.number:
                continue
            people = secrets.people.get(name, ())
            shares = self._exposures.add(group, people)
            asked = {leaf: min(Fraction(1), share) for leaf, share in shares.items() if leaf not in not_asked}
            for person in people:
                if secrets.table[person].guard is None:
                    changed = secrets.guarded_since.get(person)
                    self._charge(person, asked, changed, (release.number, name), findings)
        manifest = release.manifest
        if manifest is not None:
            is_right = math.isclose(manifest["max_breach"], self.largest, abs_tol=CLOSE)
            findings.say(Promise.G2, WRONG_MAXIMUM, release.number, times=int(not is_right))

    def _charge(
        self, person: str, asked: dict[int, Fraction], changed: int | None, place: tuple[int, str], findings: Findings
    ) -> None:
        exposures = self._exposures
        earlier = [exposures.shares[name] for name in exposures.groups[person][:-1]]
        worst, of = Fraction(0), -1
        for leaf, share in asked.items():
            breach = share
            if any(leaf in shares for shares in earlier):
                breach = breach_of((*earlier, {leaf: share}), (leaf,))
            if changed is not None and breach > self._bound:
                spent = exposures.breach(person, (leaf,), before=changed)
                if spent > self._bound:
                    findings.say(Promise.G2, SHOWN_AFTER, *place)
                    groups = exposures.groups_of(person, changed)
                    exposures.note(person, Standing(spent, self._bound, (leaf,), groups, is_earlier=True))
                    continue
            if breach > worst:
                worst, of = breach, leaf
            if breach > self._bound:
                findings.say(Promise.G2, OVER, *place)
        self.largest = max(self.largest, worst)
        exposures.note(person, Standing(worst, self._bound, (of,), exposures.groups_of(person)))
