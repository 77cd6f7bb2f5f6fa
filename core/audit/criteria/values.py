"""The values a group shows against its people's: each as itself, as a node above it, or as "*" (Xiao-Tao, section 2.2).

Whether what is shown can be the people's values is a matching of shown nodes to true leaves. Because the nodes over a
leaf form a chain, it can be decided by counting from the leaves up: at each node, what was not shown further down must
cover what is shown here, and the rest goes on to the parent; nothing may be left at the root.
"""

from collections import Counter
from collections.abc import Mapping

from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Policy

UNTRUE = "a group shows values that are not its people's"


def can_be_shown_as(
    hierarchy: Hierarchy, leaves: Mapping[int, int], shown: Mapping[int, int], counterfeits: int = 0
) -> bool:
    """Whether leaves (code -> count) can be shown as nodes (node -> count), each as itself or something above it.

    So many of the leaves shown are nobody's (G5).
    """
    if sum(leaves.values()) + counterfeits != sum(shown.values()):
        return False
    left = Counter({hierarchy.leaf_node[code]: count for code, count in leaves.items()})
    waiting = sorted({*left, *shown})
    while waiting:
        node = waiting.pop()  # the largest number: everything below it has been seen, since parents come first
        left[node] -= shown.get(node, 0)
        if left[node] < 0 and not hierarchy.children(node):
            counterfeits += left[node]
            left[node] = 0
        if left[node] < 0 or counterfeits < 0:
            return False
        if node and left[node]:
            parent = hierarchy.parent[node]
            if parent not in left and parent not in shown:
                _insert(waiting, parent)
            left[parent] += left[node]
    return not counterfeits


def _insert(waiting: list[int], node: int) -> None:
    waiting.append(node)
    waiting.sort()


class ShownValues:
    """Whether each formed group shows its people's values."""

    def __init__(self, policy: Policy) -> None:
        self._hierarchy = policy.sensitive.hierarchy

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        for name, group in release.groups.items():
            true = Counter(leaf for person in secrets.people.get(name, ()) for leaf in secrets.table[person].values)
            if not can_be_shown_as(self._hierarchy, true, group.shown, group.counterfeits):
                findings.say(Promise.CONTRACT, UNTRUE, release.number, name)
