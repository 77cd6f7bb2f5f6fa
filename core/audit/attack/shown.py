"""What an attack sees of any publisher's release: groups of rows, and the values each group shows.

This is as neutral as can be, so that Shoal's tables of either model, naive publishers and those of other papers are
attacked by the same code. A row is a person; somebody with two rows stands in `rows` twice.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from shoal.core.audit.attack.worlds import Token
from shoal.core.policy.hierarchy import Hierarchy


class ShownGroup(NamedTuple):
    """A group. `shown` counts its values by the leaves each may stand for: one, those of an inner node, () for "*".

    `key` is the group's name if it has one that lasts, and is used only to tell which of somebody's rows is which.
    A plain group shows values that nobody promised to hide: open ones, and those of people who asked for it.
    """

    key: Hashable
    rows: Sequence[str]
    shown: Mapping[Token, int]
    is_plain: bool = False


def tokens_by_node(hierarchy: Hierarchy, shown: Mapping[int, int]) -> dict[Token, int]:
    """The values of a published group, from its counts by node of the hierarchy."""
    first, last = hierarchy.first, hierarchy.last
    return {tuple(range(first[node], last[node])) if node else (): count for node, count in shown.items()}
