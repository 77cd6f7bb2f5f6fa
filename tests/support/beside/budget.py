"""How many rounds may be formed of people inside another publisher's group e: the rule, and each part of it left out.

Whatever rounds of people of e take from e, what is left must be mixed. Somebody who knows who is in e counts just that.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from fractions import Fraction
from itertools import product

Signature = tuple[int, ...]
Counts = Mapping[int, int]

REST, WEIGHT, ABSENT, INVERSE, BETWEEN, SOME = "rest", "weight", "absent", "inverse", "between", "some"
ALL = frozenset({REST, WEIGHT, ABSENT, INVERSE, BETWEEN, SOME})


def may_stand(e: Counts, rounds: Counter[Signature], l: int, alpha: int, parts: Set[str] = ALL) -> bool:
    """Whether all these rounds may have people inside e. `parts` are those of the rule that are asked."""
    total = sum(rounds.values())
    for taken, left in _take(e, rounds):
        count = sum(taken.values())
        if (BETWEEN not in parts and count not in (0, total)) or (SOME not in parts and count):
            continue
        if REST in parts and not _is_rest_mixed(e, left, l, alpha):
            return False
        for signature in rounds:
            if taken[signature] < rounds[signature] or SOME not in parts:
                found = [left.get(value, 0) for value in signature]
                if WEIGHT in parts and not _is_weight_mixed(e, signature, found, l, alpha):
                    return False
                if ABSENT in parts and 0 < found.count(0) < max(l, alpha):
                    return False
                if INVERSE in parts and all(found) and Fraction(l, min(found)) > sum(Fraction(1, n) for n in found):
                    return False
    return True


def _take(e: Counts, rounds: Counter[Signature]) -> Iterator[tuple[Counter[Signature], dict[int, int]]]:
    kinds = sorted(rounds)
    for numbers in product(*(range(rounds[signature] + 1) for signature in kinds)):
        taken = Counter(dict(zip(kinds, numbers, strict=True)))
        gone = Counter(dict.fromkeys(e, 0))
        for signature, number in taken.items():
            gone.update(dict.fromkeys(signature, number))
        yield taken, {value: max(0, count - gone[value]) for value, count in e.items()}


def _is_rest_mixed(e: Counts, left: Counts, l: int, alpha: int) -> bool:
    count, rows = sum(left.values()), sum(e.values())
    if not count:
        return True
    if any(n * l > count and n * rows > e[value] * count for value, n in left.items()):
        return False
    return sum(n > 0 for n in left.values()) >= min(alpha, len(e))


def _is_weight_mixed(e: Counts, signature: Signature, found: list[int], l: int, alpha: int) -> bool:
    count, rows = sum(found), sum(e.values())
    if not count:
        return True
    if any(n * l > count and n * rows > e.get(value, 0) * count for value, n in zip(signature, found, strict=True)):
        return False
    return sum(n > 0 for n in found) >= alpha
