"""The persistence attack: what an attacker who believes that values mostly stay learns from a series.

Assumed, and nothing else. The adversary knows who is in which row of which group, and how many values everybody has.
A value stays from one release to the next with probability p; otherwise it is drawn anew from the overall
distribution of what was published. Everybody is looked at alone: a hidden Markov model per trail (`trails`: one value
of one person), whose evidence is what each group says about a row (`evidence`), over all releases, forwards and
backwards (`markov`). A carried group is the same draw: it is counted once, and nobody's value changes while it is
carried. Where nothing fits a value that stayed, which p = 1 can make so, it has changed, and the trail begins again.

What is believed of a person and a value at a release is the sum over the person's rows then, at most 1; a row that
holds several values counts that often. A *claim* is the surest such belief about a person, over all releases and all
protected values, if it is over 1/l; of equal ones the first. So there is at most one claim per person. It is
*right* if the person held that value at that release. What plain groups show is evidence, and no claim.

In a redrawn table nothing is promised about this attack. In a lasting one no more than 1/l of the claims may be right,
but for chance (`chance`; docs/design.md, "Values that last").

Cost: time and memory for rows times values shown beside them; 20,000 people in 50 releases take well under a minute.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np

from shoal.core.audit.attack.beliefs import Belief, Believer
from shoal.core.audit.attack.chance import is_beyond_chance, tail
from shoal.core.audit.attack.shown import ShownGroup
from shoal.core.audit.attack.trails import Trails

STAYS: Final = (0.5, 0.8, 0.95, 1.0)
SURE: Final = 0.9
_MARGIN = 1e-9


class Claims(NamedTuple):
    """What came of the attack with one stay probability: claims over the bound and over 0.9, and how many are right."""

    stay: float
    people: int
    over: int
    over_right: int
    sure: int
    sure_right: int

    def is_within(self, bound: Fraction) -> bool:
        """Whether no more claims are right than this share of them, but for chance."""
        pairs = ((self.over, self.over_right), (self.sure, self.sure_right))
        return not any(is_beyond_chance(claims, right, bound) for claims, right in pairs)

    def as_json(self, bound: Fraction) -> dict[str, Any]:
        """For machines; `chance` is how likely at least so many right claims would be by chance."""
        return {
            **self._asdict(),
            "chance": float(tail(self.over, self.over_right, bound)),
            "sure_chance": float(tail(self.sure, self.sure_right, bound)),
            "within_bound": self.is_within(bound),
        }


class PersistenceAttack:
    """Sees the releases of one publisher in order, then tells what it would claim."""

    def __init__(self, leaves: int, is_by_person: bool) -> None:
        """`is_by_person`: a row holds all values of its person; otherwise it holds one of them."""
        self._trails = Trails(leaves, is_by_person)

    def see(self, groups: Iterable[ShownGroup], held: Mapping[str, Collection[int]]) -> None:
        """Takes the next release; of `held`, the truth, the adversary uses only how many values everybody has."""
        self._trails.see(groups, held)

    def claims(
        self, bound: float, unprotected: Collection[int] = (), stays: Sequence[float] = STAYS
    ) -> tuple[Claims, ...]:
        """How many people are claimed to hold something with more than the bound, for each stay probability."""
        counts = {stay: [0, 0, 0, 0] for stay in stays}
        for stay, belief in self.beliefs(unprotected, stays):
            for place, level in ((0, bound + _MARGIN), (2, SURE)):
                if belief.belief > level:
                    counts[stay][place] += 1
                    counts[stay][place + 1] += belief.is_right
        return tuple(Claims(stay, self._trails.people, *found) for stay, found in counts.items())

    def beliefs(
        self, unprotected: Collection[int] = (), stays: Sequence[float] = STAYS
    ) -> Iterator[tuple[float, Belief]]:
        """The surest belief about everyone ever published, for each stay probability, in no particular order."""
        is_protected = np.ones(self._trails.nothing + 2, dtype=bool)
        # Neither "nothing" nor "any other value" is a claim.
        is_protected[[self._trails.nothing, self._trails.nothing + 1, *unprotected]] = False
        return Believer(self._trails, is_protected).beliefs(stays)
