"""A signature holds no value that the policy gained after the spell began.

Everybody knows from which release on somebody has had their value, and at which release a policy gained which values.
An event before it could not have named them, so they could be excluded (docs/policy.md, "Changing a policy").
"""

from typing import Final

from shoal.core.audit.criteria.lasting.history import History
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.policy import Policy

TOO_YOUNG: Final = "S1: a value is shown among values that were not there yet when it began"


class Young:
    """Compares the beginning of spells with when the values of their signatures came."""

    def __init__(self, policy: Policy, history: History) -> None:
        self._leaves, self._history = policy.sensitive.hierarchy.leaves, history
        self._since: dict[int, int] = {}  # by leaf code, the release with which it came; no event before may have it

    def see(self, release: Published, _: Secrets, findings: Findings) -> None:
        was, now = (one.sensitive.hierarchy.leaf_code for one in (release.epoch.leaves, release.epoch.policy))
        if was != now:
            came = {code for code, label in enumerate(self._leaves) if label in now and label not in was}
            self._since |= dict.fromkeys(came, release.number)
        if not self._since:
            return
        for seen in self._history.now.values():
            for one in seen:
                among = () if one.signature is None else self._history.terms.leaves(one.signature)
                is_young = any(self._since.get(leaf, 0) >= one.spell for leaf in among)
                findings.say(Promise.G2, TOO_YOUNG, release.number, one.group, int(is_young))
