"""Rounds of people inside another publisher's group e: how many of which signature, and which to form.

The adversary knows e's counts, and who is in e and who is not. Rounds full of people of e take their values from it.
What is left of e after any of the rounds must be mixed, or those it is left to are found out:

- *rest*: no value is more than 1/l of it (or its share of e), and it has at least alpha values (or all of e's);
- for each round that was not taken, of what is left of e's rows with values of its signature: no value is more than
  1/l of them (or its share of e), and they have at least alpha values (*weight*); its values that are not left are none
  or at least max(alpha, l), for its people outside e have those (*absent*); if none, no inverse of a count is more than
  1/l of the sum of the inverses (*inverse*).

Everything is known from e and the signatures, so it tells nothing. Enumerated in tests/property/test_beside_worlds.py.
This is for an e that shares nobody, no point of its regions and no group with another, and for people with one value.

Layout. For each signature, what is left of e after any of the other rounds: counts in the order of e's values, and how
many of the adversary's c people are not used up. Of somebody they know to be in a round but not in e, the round takes
one value less. Cost: the number of different rests, at most `MOST_RESTS`; then nothing more is formed.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Final, NamedTuple

from shoal.core.policy.policy import Policy

MOST_RESTS: Final = 4096
ATTEMPTS: Final = 6
DRAWN: Final = 10  # signatures drawn for each size, besides the two that take what is most frequent

Signature = tuple[int, ...]
Shuffle = Callable[[Sequence[int]], list[int]]  # by keyed draws, another order at each call


class Rest(NamedTuple):
    counts: tuple[int, ...]
    unused: int


class Budget:
    """What e can bear. `weights` are e's counts by leaf; a "*" in e is in none of them."""

    def __init__(self, policy: Policy, weights: Mapping[int, int], insiders: int = 0) -> None:
        self._policy, self._alpha = policy, policy.overlap
        self._l, self._per = policy.l.as_integer_ratio()
        self._place = {leaf: at for at, leaf in enumerate(sorted(weights))}
        self._whole = tuple(weights[leaf] for leaf in sorted(weights))
        self._rests = {Rest(self._whole, insiders)}
        self._others: dict[Signature, frozenset[Rest]] = {}

    def may_add(self, signature: Signature) -> bool:
        """Whether one more round of this signature may have people inside e."""
        return self._with(signature) is not None

    def add(self, signature: Signature) -> bool:
        """Counts a round, allowed or not: one formed before e came stays known. Returns whether it changes anything."""
        if self._is_full:
            return False
        before = self._others, self._rests
        self._others = self._grown(signature)
        self._rests = self._rests | self._take(self._rests, signature)
        return before != (self._others, self._rests)

    def holds(self) -> bool:
        """Whether the rounds counted so far are within the budget."""
        return not self._is_full and self._is_safe(self._rests, self._others)

    @property
    def _is_full(self) -> bool:
        """Whether there are too many rests to count."""
        return len(self._rests) > MOST_RESTS

    def plan(self, waiting: Mapping[int, int], shuffle: Shuffle) -> list[Signature]:
        """Rounds to be formed of the newcomers inside e, given how many wait with each value; the others are "*".

        No value is more than 1/l of those others.
        """
        best: list[Signature] = []
        for attempt in range(ATTEMPTS):
            found = self._deal(dict(waiting), attempt, shuffle)
            if sum(map(len, found)) > sum(map(len, best)):
                best = found
        return best

    # -- what is left of e --------------------------------------------------------------------------------------

    def _with(self, signature: Signature) -> "Budget | None":
        grown = Budget.__new__(Budget)
        grown.__dict__.update(self.__dict__)
        grown.add(signature)
        return grown if grown.holds() else None

    def _grown(self, signature: Signature) -> dict[Signature, frozenset[Rest]]:
        found = {one: rests | self._take(rests, signature) for one, rests in self._others.items()}
        found.setdefault(signature, frozenset(self._rests))
        return found

    def _take(self, rests: frozenset[Rest] | set[Rest], signature: Signature) -> frozenset[Rest]:
        places = [self._place[leaf] for leaf in signature if leaf in self._place]
        found = set()
        for rest in rests:
            for spared in range(min(rest.unused, len(places)) + 1):
                for taken in combinations(places, len(places) - spared):
                    counts = list(rest.counts)
                    for place in taken:
                        counts[place] = max(0, counts[place] - 1)
                    found.add(Rest(tuple(counts), rest.unused - spared))
        return frozenset(found)

    def _is_safe(self, rests: set[Rest], others: Mapping[Signature, frozenset[Rest]]) -> bool:
        return all(map(self._is_mixed, rests)) and all(
            self._is_covered(signature, rest) for signature, left in others.items() for rest in left
        )

    def _is_mixed(self, rest: Rest) -> bool:
        total, whole = sum(rest.counts), sum(self._whole)
        if not total:
            return True
        for count, first in zip(rest.counts, self._whole, strict=True):
            if count * self._l > (total - rest.unused) * self._per and count * whole > first * total:
                return False
        return sum(count > 0 for count in rest.counts) >= min(self._alpha + rest.unused, len(self._whole))

    def _is_covered(self, signature: Signature, rest: Rest) -> bool:
        return all(self._is_even_enough(*known) for known in self._known(signature, rest.counts, rest.unused))

    def _known(
        self, signature: Signature, counts: tuple[int, ...], unused: int
    ) -> Iterator[tuple[Signature, tuple[int, ...]]]:
        """What is left for somebody who knows some people of e, of the round, or of both."""
        yield signature, counts
        for leaf in {*signature, *self._place} if unused else ():
            fewer = tuple(one for one in signature if one != leaf)
            if len(fewer) < len(signature):
                yield from self._known(fewer, counts, unused - 1)
            at = self._place.get(leaf)
            if at is not None and counts[at] >= 1:
                less = (*counts[:at], counts[at] - 1, *counts[at + 1 :])
                yield from self._known(signature, less, unused - 1)
                if len(fewer) < len(signature):
                    yield from self._known(fewer, less, unused - 1)

    def _is_even_enough(self, signature: Signature, counts: tuple[int, ...]) -> bool:
        places = [self._place[leaf] for leaf in signature if leaf in self._place]
        shown = [(counts[place], self._whole[place]) for place in places if counts[place]]
        absent, total, whole = len(signature) - len(shown), sum(count for count, _ in shown), sum(self._whole)
        if 0 < absent < self._alpha or 0 < absent * self._per < self._l:
            return False
        if not shown:
            return True
        if len(shown) < self._alpha:
            return False
        if any(count * self._l > total * self._per and count * whole > first * total for count, first in shown):
            return False
        if absent:
            return True
        rarest = Fraction(1, min(count for count, _ in shown))
        return rarest * self._l <= self._per * sum(Fraction(1, count) for count, _ in shown)

    # -- dealing ------------------------------------------------------------------------------------------------

    def _deal(self, left: dict[int, int], attempt: int, shuffle: Shuffle) -> list[Signature]:
        budget, found = self, list[Signature]()
        while True:
            tried = sorted(set(budget._draw(left, shuffle)))
            order = shuffle(range(len(tried)))
            tried = sorted((tried[at] for at in order), key=lambda signature: _worth(signature, left, attempt))
            grown = next(((one, more) for one in tried if (more := budget._with(one)) is not None), None)
            if grown is None:
                break
            signature, budget = grown
            found.append(signature)
            for leaf in signature:
                left[leaf] -= 1
        take_back(found, left, self._policy.l)
        return found

    def _draw(self, left: Mapping[int, int], shuffle: Shuffle) -> Iterator[Signature]:
        there = sorted(leaf for leaf, count in left.items() if count)
        weight = {leaf: self._whole[self._place[leaf]] if leaf in self._place else 0 for leaf in there}
        m = self._policy.signature
        for size in range(m, min(2 * m, len(there)) + 1):
            drawn = shuffle(there)
            yield tuple(sorted(sorted(drawn, key=lambda leaf: -left[leaf])[:size]))
            yield tuple(sorted(sorted(drawn, key=lambda leaf: -weight[leaf])[:size]))
            for _ in range(DRAWN):
                yield tuple(sorted(shuffle(there)[:size]))
            for even in sorted(set(weight.values())):
                alike = [leaf for leaf in drawn if weight[leaf] == even]
                if len(alike) >= size:
                    yield tuple(sorted(alike[:size]))


def take_back(found: list[Signature], left: MutableMapping[int, int], l: float) -> None:
    """Give up the last of these rounds, until no value is more than 1/l of those left; or all of them."""
    while found and max(left.values()) * l > sum(left.values()):
        for leaf in found.pop():
            left[leaf] += 1


def _worth(signature: Signature, left: Mapping[int, int], attempt: int) -> Fraction:
    """The frequent first, or the long first, or as drawn."""
    frequent = Fraction(sum(left[leaf] for leaf in signature), len(signature))
    return (-frequent, Fraction(-len(signature)), Fraction(0))[attempt % 3]
