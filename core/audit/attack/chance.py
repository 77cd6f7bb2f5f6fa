"""Whether claims are right more often than a bound allows, or only by chance."""

from fractions import Fraction
from math import comb

LEVEL = Fraction(1, 10**6)


def tail(claims: int, right: int, share: Fraction) -> Fraction:
    """The chance that at least `right` of `claims` are right, if each is with this share: the exact binomial tail.

    Whole numbers throughout; for 100,000 claims it takes about a second.
    """
    if right <= 0:
        return Fraction(1)
    if right > claims:
        return Fraction(0)
    hit, miss = share.numerator, share.denominator - share.numerator
    if not miss:
        return Fraction(1)
    # The terms from `right` to `claims` over a common denominator, each from the one before.
    term = comb(claims, right) * hit**right * miss ** (claims - right)
    total = 0
    for count in range(right, claims + 1):
        total += term
        term = term * (claims - count) * hit // ((count + 1) * miss)
    return Fraction(total, share.denominator**claims)


def is_beyond_chance(claims: int, right: int, share: Fraction, level: Fraction = LEVEL) -> bool:
    """Whether so many would be right less than once in a million times, if each were right with this share.

    The tail takes claims as independent. In a lasting table they are not quite: the people of one group cannot all be
    right about one value, which makes many hits rarer than the tail says, and somebody who took a leaver's place has
    the leaver's value, so two claims may stand or fall together. The level is low enough for both.
    """
    return right > share * claims and tail(claims, right, share) < level
