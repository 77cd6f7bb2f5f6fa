"""What a group weighs: w(A, G), how many of its shown values may be in A, and n(G), the people who may have them.

Both are exact. "*" and the permanent values are set aside, because cohorts protect them (G3): people who show one are
not counted in n(G), and what they show is not counted in w (docs/design.md, "G2 Global").
"""

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Policy, Sensitive

Weight = int | Fraction


def set_aside(sensitive: Sensitive) -> frozenset[int]:
    """The nodes that are set aside: "*" and those of the permanent values."""
    return frozenset((0, *(sensitive.hierarchy.leaf_node[leaf] for leaf in sensitive.permanent)))


def open_leaves(policy: Policy) -> NDArray[np.bool_]:
    """By leaf, whether it is open: not protected, except for a person whose guard covers it.

    Permanent values count as open here: they weigh nothing.
    """
    is_open = np.zeros(len(policy.sensitive.hierarchy.leaves), dtype=bool)
    is_open[list(policy.sensitive.open | policy.sensitive.permanent)] = True
    return is_open


def weight_of(
    shown: Iterable[tuple[int, int]], hierarchy: Hierarchy, first: int, last: int, aside: frozenset[int]
) -> Fraction:
    """w(A, G) of the leaves [first, last): 1 for a leaf itself, 1/leaves(v) for each v above it, 0 for those aside."""
    found = Fraction(0)
    for node, count in shown:
        low, high = hierarchy.first[node], hierarchy.last[node]
        if node not in aside and low < last and first < high:
            found += Fraction(count * (min(high, last) - max(low, first)), high - low)
    return found


def effective_people(people: int, shown: Iterable[tuple[int, int]], aside: frozenset[int]) -> int:
    """n(G): the people of a group less what it shows that is set aside; at least 1."""
    return max(1, people - sum(count for node, count in shown if node in aside))
