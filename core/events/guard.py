"""Guards: what one person asks for instead of the table's promise (Xiao-Tao, section 3; docs/design.md, "G4 Personal").

A guard names a node of the sensitive hierarchy: the person must not be linked to *any* of the leaves under it, taken
together, with more than their bound. It takes the place of the promise for single values. The empty guard names no
node: the person's values may be published as they are.
"""

from typing import Any, Final, NamedTuple

from shoal.core.events.event import Reason, Reject
from shoal.core.policy.policy import Policy

EMPTY: Final = -1
# No group has a billion people. A smaller bound can never be kept either: whatever it guards is shown as "*".
SMALLEST_BOUND: Final = 1e-9

Wish = tuple[()] | tuple[int, float | None]  # () takes a guard back; a pair sets one


class Guard(NamedTuple):
    """A node of the sensitive hierarchy, or EMPTY; and the person's own bound, or None for the table's."""

    node: int
    bound: float | None = None


def as_guard(stored: tuple[int, float | None] | None) -> Guard | None:
    """A guard that was stored as a plain pair."""
    return None if stored is None else Guard(*stored)


def read_guard(raw: object, policy: Policy) -> Wish | Reject | None:
    """The wish in an event's `guard`, None without one. A Reject lacks only the op.

    A guard is written as a node's label, "" for the empty guard, or an object with the node and a bound in (0, 1/l]. A
    bound that no group can keep is read as SMALLEST_BOUND, which none can keep either.
    """
    if raw is None:
        return None
    if raw == "" and type(raw) is str:
        return (EMPTY, None)
    if type(raw) is not dict:
        return _read_node(raw, policy, None)
    if not raw.keys() <= {"node", "bound"} or "node" not in raw:
        return Reject(Reason.UNKNOWN_FIELD if "node" in raw else Reason.MISSING_FIELD, None, "guard")
    if raw["node"] is None:
        return Reject(Reason.UNKNOWN_FIELD, None, "guard.bound") if "bound" in raw else ()
    if "bound" not in raw:
        return _read_node(raw["node"], policy, None)
    bound = raw["bound"]
    if type(bound) not in (int, float):
        return Reject(Reason.WRONG_TYPE, None, "guard.bound")
    if not 0 < bound <= 1 / policy.l:
        return Reject(Reason.OUT_OF_DOMAIN, None, "guard.bound")
    return _read_node(raw["node"], policy, max(float(bound), SMALLEST_BOUND))


def _read_node(raw: Any, policy: Policy, bound: float | None) -> Wish | Reject:
    if type(raw) not in (str, int):
        return Reject(Reason.WRONG_TYPE, None, "guard")
    node = policy.sensitive.hierarchy.node_of.get(str(raw))
    return Reject(Reason.UNKNOWN_NODE, None, "guard") if node is None else (node, bound)
