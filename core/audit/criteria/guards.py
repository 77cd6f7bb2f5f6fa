"""G4, personal: nobody is linked to any value under their guarding node beyond their bound (Xiao-Tao, section 2.1).

Made global over releases (docs/design.md, "G4 Personal"): exposures before a guard was set or changed count. Where they
alone exceed the bound, no later group of that person shows anything under the node. The empty guard asks for nothing.
Must see a release after `Linking`, which charges it.
"""

from shoal.core.audit.criteria.exposure import Exposures, Standing
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.truth import Guard
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.policy import Policy

OVER = "a person's breach of what they guard is over their bound"
SHOWN_AFTER = "something guarded is shown for somebody whose exposures before they guarded it had used up the bound"


class Guards:
    """Adds up, for everyone with a guard, what is said about all they guard together."""

    def __init__(self, policy: Policy, exposures: Exposures) -> None:
        self._sensitive, self._exposures = policy.sensitive, exposures
        self.people: set[str] = set()  # ever published with a guard that asks for something
        self.unguarding: set[str] = set()  # ever published with the empty guard

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        for name, group in release.groups.items():
            if group.formed != release.number:
                continue
            for person in secrets.people.get(name, ()):
                guard = secrets.table[person].guard
                if guard is None:
                    continue
                if guard.node is None:
                    self.unguarding.add(person)
                    continue
                self.people.add(person)
                changed = secrets.guarded_since.get(person, 0)
                sentence = self._judge(person, name, guard, changed)
                if sentence is not None:
                    findings.say(Promise.G4, sentence, release.number, name)

    def _judge(self, person: str, group: str, guard: Guard, changed: int) -> str | None:
        exposures, leaves = self._exposures, self.guarded_leaves(guard)
        spent = exposures.breach(person, leaves, before=changed)
        if spent > guard.bound:
            groups = exposures.groups_of(person, changed)
            exposures.note(person, Standing(spent, guard.bound, leaves, groups, is_guarded=True, is_earlier=True))
            return SHOWN_AFTER if exposures.shares[group].keys() & set(leaves) else None
        breach = exposures.breach(person, leaves)
        groups = exposures.groups_of(person)
        exposures.note(person, Standing(breach, guard.bound, leaves, groups, is_guarded=True))
        return OVER if breach > guard.bound else None

    def guarded_leaves(self, guard: Guard) -> tuple[int, ...]:
        """The set A: all leaves under the guarding node but permanent ones, which are G3's."""
        assert guard.node is not None
        hierarchy = self._sensitive.hierarchy
        run = range(hierarchy.first[guard.node], hierarchy.last[guard.node])
        return tuple(leaf for leaf in run if leaf not in self._sensitive.permanent)
