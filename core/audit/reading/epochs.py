"""The policies that a table has had, one after the other, and which of them a release was made under.

Everything is read and compared in the labels of the last policy, which has all of the earlier ones. What a release is
held to, its k and its limits, is what its own policy says. The release at which a policy takes over is still written
with the leaves of the one before.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from shoal.core.audit.finding import Findings, Promise
from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Attribute, Policy

POLICY: Final = "a manifest names another policy"
TAKEN_BACK: Final = "a change of policy takes back what was promised"

_FOR_EVER: Final = ("table", "l", "values", "insiders", "signature", "participation", "sampling", "overlap", "case_ids")


class Epoch(NamedTuple):
    """What a release is held to, and the leaves that it was made with."""

    policy: Policy
    leaves: Policy

    def widths(self, attribute: int, hierarchy: Hierarchy, low: int, high: int) -> tuple[int, int]:
        """How many of the leaves it was made with a run has, and how many there were; codes are of `hierarchy`."""
        mine = self.leaves.attributes[attribute].hierarchy
        assert mine is not None
        return sum(label in mine.leaf_code for label in hierarchy.leaves[low:high]), len(mine.leaves)


class Gained:
    """Follows which values came with a change of policy, and when: no event of that release or before may have one."""

    def __init__(self, policy: Policy) -> None:
        self._leaves = policy.sensitive.hierarchy.leaves
        self.since: dict[int, int] = {}  # by leaf code, the release of the change

    def see(self, epoch: Epoch, number: int) -> frozenset[int]:
        """Takes the next release, and returns the leaves that it was made with."""
        was, now = (one.sensitive.hierarchy.leaf_code for one in (epoch.leaves, epoch.policy))
        if was != now:
            came = {code for code, label in enumerate(self._leaves) if label in now and label not in was}
            self.since |= dict.fromkeys(came, number)
        return frozenset(code for code, label in enumerate(self._leaves) if label in was)


class Epochs:
    """Follows the policies that manifests name."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._policies = {policy.digest: policy for policy in policies}
        self._first, self._last = policies[0], policies[-1]
        self._named: str | None = None

    def of(self, manifest: Mapping[str, Any] | None, number: int, findings: Findings) -> Epoch:
        """The epoch of the next release; one that cannot be told is taken for the last."""
        if manifest is None:
            return Epoch(self._last, self._last)
        named, before = manifest["policy"], manifest.get("previous_policy")
        is_wrong = named not in self._policies or before != (self._named if self._named not in (None, named) else None)
        findings.say(Promise.G6, POLICY, number, times=int(is_wrong))
        policy = self._policies.get(named, self._last)
        earlier = self._policies.get(str(before), policy)
        findings.say(Promise.CONTRACT, TAKEN_BACK, number, times=int(_takes_back(earlier, policy)))
        self._named = named
        return Epoch(policy, earlier)

    @property
    def known(self) -> Policy:
        """The policy by which events are judged now."""
        return self._policies.get(self._named or "", self._first)


def _takes_back(old: Policy, new: Policy) -> bool:
    is_other = any(getattr(old, name) != getattr(new, name) for name in _FOR_EVER)
    if is_other or new.k < old.k or [one.name for one in old.attributes] != [one.name for one in new.attributes]:
        return True
    was, now = old.sensitive, new.sensitive
    for kind in ("open", "permanent"):
        labels = [{one.hierarchy.leaves[code] for code in getattr(one, kind)} for one in (was, now)]
        if (labels[0] ^ labels[1]) & was.hierarchy.leaf_code.keys():
            return True
    pairs = zip(old.attributes, new.attributes, strict=True)
    return _loses(was.hierarchy, now.hierarchy) or any(_narrows(before, after) for before, after in pairs)


def _narrows(old: Attribute, new: Attribute) -> bool:
    if old.hierarchy is None or new.hierarchy is None:
        return old != new
    return _loses(old.hierarchy, new.hierarchy)


def _loses(old: Hierarchy, new: Hierarchy) -> bool:
    """Whether a label is gone, stands below another, or is a leaf in one of them only."""
    for node, label in enumerate(old.labels):
        other = new.node_of.get(label)
        if other is None or bool(old.children(node)) != bool(new.children(other)):
            return True
        if node and old.labels[old.parent[node]] != new.labels[new.parent[other]]:
            return True
    return False
