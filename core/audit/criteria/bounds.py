"""What anyone can say about G2 without secrets: the largest possible breach, whichever people are in each group.

Nobody is in two groups at once, so a person's exposures are a sequence of groups each formed after the one before was
last seen. The worst sequence for each value gives a bound for everyone. It is not the largest breach, which only the
membership can tell; but if it is within 1/ℓ, the promise is proven to anybody, and no `max_breach` may be above it.
"""

from fractions import Fraction

from shoal.core.audit.criteria.exposure import ONE, shares_of
from shoal.core.audit.criteria.linking import CLOSE
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.truth import exact
from shoal.core.policy.policy import Policy

IMPOSSIBLE = "max_breach in a manifest is more than anyone's breach can be"
OVER_STATED = "max_breach in a manifest is over the bound"
FALLING = "max_breach in a manifest is less than in an earlier one"


class Bounds:
    """The most anybody's breach can be. `largest_share` is the most that one group alone says about its people."""

    def __init__(self, policy: Policy) -> None:
        self._sensitive = policy.sensitive
        self._limit = 1 / exact(policy.l)
        self._ended: dict[int, Fraction] = {}  # by value: the least survival over sequences of groups that are over
        self._current: dict[str, dict[int, Fraction]] = {}  # by group still there: survival at best, including it
        self._stated = 0.0
        self.largest_share = Fraction(0)
        self.most = Fraction(0)

    def see(self, release: Published, findings: Findings) -> None:
        for name in self._current.keys() - release.groups.keys():
            for leaf, survival in self._current.pop(name).items():
                self._ended[leaf] = min(self._ended.get(leaf, ONE), survival)
        not_asked = self._sensitive.open | self._sensitive.permanent
        for name, group in release.groups.items():
            if name in self._current:
                continue
            survivals = {}
            for leaf, share in shares_of(group.rows, group.shown, self._sensitive).items():
                if leaf in not_asked:
                    continue
                share = min(ONE, share)
                survivals[leaf] = self._ended.get(leaf, ONE) * (1 - share)
                self.largest_share = max(self.largest_share, share)
                self.most = max(self.most, 1 - survivals[leaf])
            self._current[name] = survivals
        if release.manifest is not None:
            stated = release.manifest["max_breach"]
            wrong = {
                IMPOSSIBLE: stated > self.most + Fraction(CLOSE),
                FALLING: stated < self._stated,
                OVER_STATED: stated > self._limit + Fraction(CLOSE),
            }
            for sentence, is_so in wrong.items():
                findings.say(Promise.G2, sentence, release.number, times=int(is_so))
            self._stated = stated
