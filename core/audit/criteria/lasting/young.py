"""A signature holds no value that the policy gained after the spell began.

Everybody knows from which release on somebody has had their value, and at which release a policy gained which values.
An event before it could not have named them, so they could be excluded (docs/policy.md, "Changing a policy").
"""

from typing import Final

from shoal.core.audit.criteria.lasting.history import History
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.epochs import Gained
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.policy import Policy

TOO_YOUNG: Final = "a value is shown among values that were not there yet when it began"


class Young:
    """Compares the beginning of spells with when the values of their signatures came."""

    def __init__(self, policy: Policy, history: History) -> None:
        self._gained, self._history = Gained(policy), history

    def see(self, release: Published, _: Secrets, findings: Findings) -> None:
        self._gained.see(release.epoch, release.number)
        since = self._gained.since
        if not since:
            return
        for person in self._history.now:
            for one in self._history.fresh(person):
                is_young = any(since.get(leaf, 0) >= one.spell for leaf in one.signature or ())
                findings.say(Promise.G2, TOO_YOUNG, release.number, one.group, int(is_young))
