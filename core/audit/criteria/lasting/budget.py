"""Whether another publisher's group e can bear the rounds that people inside it were shown in (docs/external.md).

The adversary knows who is really in e. Whichever of the rounds are full of such people, the rows of e that are left
belong to everybody else in it, so they must be mixed: as a whole, and as far as each of the other rounds shows them.
Of `insiders` people the adversary knows the values, in e, in a round, or in both.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import combinations
from typing import Final, NamedTuple

from shoal.core.audit.criteria.lasting.terms import Signature

MOST_LEFT: Final = 20_000  # different things that may be left of e; more are not counted, and nothing may rely on them


class Left(NamedTuple):
    """What is left of e by value, and how many people the adversary may know besides."""

    rows: tuple[tuple[int, int], ...]
    unknown: int


class Bearing:
    """What one e can bear. `rows` are its counts by leaf."""

    def __init__(self, rows: Mapping[int, int], l: Fraction, alpha: int, insiders: int) -> None:
        self._rows, self._l, self._alpha, self._insiders = dict(rows), l, alpha, insiders
        self._total = sum(rows.values())

    def bears(self, rounds: Counter[Signature]) -> bool:
        """Whether all of these rounds may have people inside e."""
        left = self._left(rounds)
        if left is None or not all(map(self._is_mixed, left)):
            return False
        for signature in rounds:
            others = self._left(rounds - Counter([signature]))
            if others is None or not all(self._covers(one, signature) for one in others):
                return False
        return True

    def _left(self, rounds: Counter[Signature]) -> set[Left] | None:
        """Everything that some of the rounds may leave of e; None if it is too much."""
        found = {Left(tuple(sorted(self._rows.items())), self._insiders)}
        for signature, times in rounds.items():
            edge = found
            for _ in range(times):
                edge = {after for left in edge for after in _take(left, signature)} - found
                found = found | edge
                if not edge:
                    break
                if len(found) > MOST_LEFT:
                    return None
        return found

    def _is_mixed(self, left: Left) -> bool:
        total = sum(count for _, count in left.rows)
        most = [
            leaf for leaf, count in left.rows if count * self._total > self._rows[leaf] * total and count
        ]  # whose share has grown
        if any(dict(left.rows)[leaf] * self._l > total - left.unknown for leaf in most):
            return False
        values = sum(count > 0 for _, count in left.rows)
        return not values or values >= min(self._alpha + left.unknown, len(self._rows))

    def _covers(self, left: Left, signature: Signature) -> bool:
        """Whether the people of a round that is not taken are mixed among what is left, and those not in e among it."""
        return all(self._is_even(*known) for known in _know(dict(left.rows), signature, left.unknown))

    def _is_even(self, rows: Mapping[int, int], signature: Signature) -> bool:
        counts = {leaf: rows[leaf] for leaf in signature if rows.get(leaf)}
        absent, total = len(signature) - len(counts), sum(counts.values())
        if 0 < absent < self._alpha or 0 < absent < self._l:
            return False
        if not counts:
            return True
        is_over = any(
            count * self._l > total and count * self._total > self._rows[leaf] * total for leaf, count in counts.items()
        )
        if is_over or len(counts) < self._alpha:
            return False
        inverse = sum(Fraction(1, count) for count in counts.values())
        return absent > 0 or Fraction(1, min(counts.values())) * self._l <= inverse


def _take(left: Left, signature: Signature) -> Iterator[Left]:
    """What a round leaves, but for values of people in it who are known not to be in e."""
    shown = [leaf for leaf, _ in left.rows if leaf in signature]
    for spared in range(min(left.unknown, len(shown)) + 1):
        for kept in combinations(shown, spared):
            rows = tuple((leaf, max(0, count - (leaf in signature and leaf not in kept))) for leaf, count in left.rows)
            yield Left(rows, left.unknown - spared)


def _know(rows: dict[int, int], signature: Signature, unknown: int) -> Iterator[tuple[dict[int, int], Signature]]:
    """What is left for somebody who knows up to so many people: of e, of the round, or of both."""
    yield rows, signature
    for leaf in signature | rows.keys() if unknown else ():
        fewer = {**rows, leaf: rows[leaf] - 1} if rows.get(leaf) else None
        for less, smaller in ((rows, signature - {leaf}), (fewer, signature), (fewer, signature - {leaf})):
            if less is not None and (less, smaller) != (rows, signature):
                yield from _know(less, smaller, unknown - 1)
