"""G2 in a lasting table: breach(o, s) ≤ j/(m − c) ≤ 1/ℓ, and `max_breach` is the largest j/(m − c) so far.

j is the number of different values of o shown under a signature of m values, at most f = ⌊(m − c)/ℓ⌋; c is the number
of insiders (docs/design.md, "Values that last"). `max_breach` is over everyone ever published without a guard. Whether
what was shown while a guard stood counts for somebody without one before or after is left open, so a manifest may state
either.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from shoal.core.audit.criteria.bounds import FALLING, IMPOSSIBLE, OVER_STATED
from shoal.core.audit.criteria.lasting.history import History
from shoal.core.audit.criteria.lasting.settled import Settled
from shoal.core.audit.criteria.lasting.terms import Signature
from shoal.core.audit.criteria.linking import CLOSE, WRONG_MAXIMUM
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Secrets

SMALL: Final = "a person's breach of a value is over 1/l: a signature of theirs is too small"


class LastingBounds:
    """What anyone can say of `max_breach`. Must see a release after `Settled`."""

    def __init__(self, settled: Settled, history: History) -> None:
        self._settled, self._terms = settled, history.terms
        self._stated = 0.0
        self.most = Fraction(0)  # the largest f/(m − c) of a signature that was ever shown

    def see(self, release: Published, findings: Findings) -> None:
        terms = self._terms
        sizes = {len(signature): signature for signature in self._settled.signatures}
        self.most = max((terms.breach(one, terms.most_values(one)) for one in sizes.values()), default=Fraction(0))
        if release.manifest is None:
            return
        stated = release.manifest["max_breach"]
        wrong = {
            IMPOSSIBLE: stated > self.most + Fraction(CLOSE),
            FALLING: stated < self._stated,
            OVER_STATED: stated > terms.bound + Fraction(CLOSE),
        }
        for sentence, is_so in wrong.items():
            findings.say(Promise.G2, sentence, release.number, times=int(is_so))
        self._stated = stated


@dataclass(frozen=True)
class Worst:
    """How near somebody came to their bound: by which signature's j of m."""

    breach: Fraction
    values: int
    size: int


class Breaches:
    """Finds the largest j/(m − c) of everyone."""

    def __init__(self, history: History) -> None:
        self._history, self._terms = history, history.terms
        self._ever_free: set[str] = set()  # published without a guard at some time
        self.least = self.most = Fraction(0)
        self.worst: dict[str, Worst] = {}

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        for person in secrets.homes:
            if secrets.table[person].guard is None and person not in self._ever_free:
                self._ever_free.add(person)
                for signature, values in self._history.of(person).values.items():
                    self._note(person, signature, len(values), is_free=False)
        for person, seen in self._history.now.items():
            is_free = secrets.table[person].guard is None
            after = None
            for signature in {one.signature for one in seen if one.signature is not None}:
                after = after or self._history.after(person)
                self._note(person, signature, len(after[signature]), is_free)
                if not self._terms.most_values(signature):
                    findings.say(Promise.G2, SMALL, release.number)
        manifest = release.manifest
        if manifest is not None:
            stated = manifest["max_breach"]
            is_right = any(math.isclose(stated, one, abs_tol=CLOSE) for one in (self.least, self.most))
            is_right = is_right or self.least < stated < self.most
            findings.say(Promise.G2, WRONG_MAXIMUM, release.number, times=int(not is_right))

    def _note(self, person: str, signature: Signature, values: int, is_free: bool) -> None:
        breach = self._terms.breach(signature, values)
        if is_free:
            self.least = max(self.least, breach)
        if person in self._ever_free:
            self.most = max(self.most, breach)
        known = self.worst.get(person)
        if known is None or breach > known.breach:
            self.worst[person] = Worst(breach, values, len(signature))
