"""The differences between two policies of one table, and what becomes of each: allowed from a release on, or refused.

(docs/policy.md, "Changing a policy".) What was promised about what is already shown holds for ever. So a change may
only add: new labels below nodes that exist, behind their older siblings, and settings that decide nothing that was
shown.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Final, NamedTuple

from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Attribute, Policy, Sensitive

_BEGIN_ANEW: Final = "begin a new table for it"


class Difference(NamedTuple):
    """One difference: where, what it is, and what becomes of it, or why it is refused."""

    place: str
    change: str
    fate: str
    is_allowed: bool

    def __str__(self) -> str:
        return f"{self.place}: {self.change}: {'' if self.is_allowed else 'refused, '}{self.fate}"


def differences(old: Policy, new: Policy) -> list[Difference]:
    """Every difference that is one of meaning or of triggers, in the order of the policy's keys. O(labels)."""
    found: list[Difference] = []
    for field in fields(Policy):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before != after and field.name in _JUDGES:
            found += _JUDGES[field.name](before, after, new)
    return found


_Judge = Callable[[Any, Any, Policy], Iterable[Difference]]


def _number(place: str, fate: str, *, is_allowed: bool = True) -> _Judge:
    return lambda old, new, _: [Difference(place, f"{old} to {new}", fate, is_allowed)]


def _refused(place: str, reason: str) -> _Judge:
    return _number(place, reason, is_allowed=False)


def _k(old: int, new: int, _: Policy) -> Iterator[Difference]:
    if new > old:
        yield Difference("privacy.k", f"{old} to {new}", "cells of fewer people close until they refill", True)
    else:
        reason = f"regions were promised to be shared by {old}; {_BEGIN_ANEW}"
        yield Difference("privacy.k", f"{old} to {new}", reason, False)


def _triggers(old: Any, new: Any, _: Policy) -> Iterator[Difference]:
    for name, before, after in zip(old._fields, old, new, strict=True):
        if before != after:
            yield Difference(f"release.{name}", f"{before} to {after}", "needs no release; restart the workers", True)


def _attributes(old: tuple[Attribute, ...], new: tuple[Attribute, ...], _: Policy) -> Iterator[Difference]:
    names = [[attribute.name for attribute in attributes] for attributes in (old, new)]
    if names[0] != names[1]:
        reason = f"every region that was published has exactly these attributes, in this order; {_BEGIN_ANEW}"
        yield Difference("attributes", f"{', '.join(names[0])} to {', '.join(names[1])}", reason, False)
        return
    for before, after in zip(old, new, strict=True):
        place = f"attributes.{before.name}"
        if before.hierarchy is not None and after.hierarchy is not None:
            yield from _labels(place, before.hierarchy, after.hierarchy, "may be in events after that release")
        elif before != after:
            reason = f"cuts were made in this domain, and regions name its ends; {_BEGIN_ANEW}"
            yield Difference(place, f"{_domain(before)} to {_domain(after)}", reason, False)


def _domain(attribute: Attribute) -> str:
    return attribute.kind if attribute.kind == "category" else f"{attribute.kind} {attribute.low} to {attribute.high}"


def _sensitive(old: Sensitive, new: Sensitive, policy: Policy) -> Iterator[Difference]:
    if old.name != new.name:
        yield Difference("sensitive.name", f"{old.name} to {new.name}", f"it is another value; {_BEGIN_ANEW}", False)
    fate = "may be in events after that release; a value not shown to anybody by then stays * until it changes"
    yield from _labels("sensitive", old.hierarchy, new.hierarchy, fate if policy.values == "lasting" else _LATER)
    yield from _below_nodes(old, new, policy)
    for kind in ("open", "permanent"):
        yield from _kinds(kind, old, new)
    known = [len(one.permanent) for one in (old, new)]
    if policy.values == "lasting" and known[1] > known[0] and known[1] >= policy.signature:
        reason = (
            f"with {policy.signature} permanent values they are shown among each other, and a spell that began earlier "
            f"cannot be any of the new ones; {_BEGIN_ANEW}"
        )
        yield Difference("sensitive.permanent", f"{known[0]} to {known[1]} values", reason, False)


_LATER: Final = "may be in events after that release"


def _below_nodes(old: Sensitive, new: Sensitive, policy: Policy) -> Iterator[Difference]:
    """In a redrawn table a raised value is charged to the leaves below it: there must not be more of them later."""
    if policy.values != "redrawn":
        return
    was, now = old.hierarchy, new.hierarchy
    for node, label in enumerate(was.labels[1:], 1):
        other = now.node_of.get(label)
        if other is not None and now.last[other] - now.first[other] > was.last[node] - was.first[node]:
            reason = f"what was shown as {label} is charged to the leaves it had; put new values below * itself"
            yield Difference("sensitive", f"new labels below {label}", reason, False)


def _kinds(kind: str, old: Sensitive, new: Sensitive) -> Iterator[Difference]:
    was, now = ({one.hierarchy.leaves[code] for code in getattr(one, kind)} for one in (old, new))
    instead = "add a value with a name of its own instead, and send that from now on"
    for label in sorted((was ^ now) & old.hierarchy.leaf_code.keys() & new.hierarchy.leaf_code.keys()):
        what = f"{label} becomes {kind}" if label in now else f"{label} is {kind} no more"
        yield Difference(f"sensitive.{kind}", what, f"people were shown under another promise; {instead}", False)


def _labels(place: str, old: Hierarchy, new: Hierarchy, fate: str) -> Iterator[Difference]:
    """New labels, and what is wrong with the old ones: gone, moved, or not in their old order."""
    for node, label in enumerate(old.labels):
        other = new.node_of.get(label)
        if other is None:
            yield Difference(place, f"{label} is gone", f"it was published, or may have been; {_BEGIN_ANEW}", False)
        elif bool(old.children(node)) != bool(new.children(other)):
            reason = f"a value and a node above values are not the same; {_BEGIN_ANEW}"
            yield Difference(place, f"{label} is {'no ' if old.children(node) else ''}node above others", reason, False)
        elif node and old.labels[old.parent[node]] != new.labels[new.parent[other]]:
            reason = f"whoever was shown below {old.labels[old.parent[node]]} stays there; {_BEGIN_ANEW}"
            yield Difference(place, f"{label} stands below {new.labels[new.parent[other]]}", reason, False)
        elif old.children(node):
            yield from _order(place, label, _names(old, node), _names(new, other))
    for node, label in enumerate(new.labels):
        if label not in old.node_of:
            above = new.labels[new.parent[node]]
            yield Difference(place, f"{label} is new, below {above}", fate, True)


def _names(hierarchy: Hierarchy, node: int) -> list[str]:
    return [hierarchy.labels[child] for child in hierarchy.children(node)]


def _order(place: str, above: str, old: list[str], new: list[str]) -> Iterator[Difference]:
    """Old children first, in their old order: regions are runs in it."""
    if sorted(old) == sorted(new[: len(old)]) and old != new[: len(old)]:
        yield Difference(place, f"another order below {above}", "regions are runs in the old order; set it back", False)
    elif old != new[: len(old)] and set(old) <= set(new):
        reason = "regions are runs in the old order; put new lines at the end"
        yield Difference(place, f"new labels stand before older ones below {above}", reason, False)


_JUDGES: Final[Mapping[str, _Judge]] = {
    "table": _refused("table", "this is the policy of another table"),
    "attributes": _attributes,
    "sensitive": _sensitive,
    "k": _k,
    "l": _refused("privacy.l", f"every link so far was bounded by it; {_BEGIN_ANEW}"),
    "values": _refused(
        "privacy.values",
        "what was shown under one model of how values behave cannot be counted under the other: redrawn groups were "
        f"formed without signatures, and signatures are for ever; {_BEGIN_ANEW}",
    ),
    "signature": _refused("privacy.signature", f"a value is shown among the same others for ever; {_BEGIN_ANEW}"),
    "insiders": _refused("privacy.insiders", f"every link so far was bounded for so many of them; {_BEGIN_ANEW}"),
    "batch": _number("privacy.batch", "newcomers wait for so many from that release on"),
    "strategy": _number("privacy.strategy", "what is left of everybody's budget is spent so from that release on"),
    "headroom": _number("privacy.headroom", "cells are cut with it from that release on"),
    "participation": _refused("privacy.participation", f"cliques were made for what it says; {_BEGIN_ANEW}"),
    "sampling": _refused("privacy.sampling", f"everybody's coin is tossed once for ever; {_BEGIN_ANEW}"),
    "overlap": _refused("privacy.overlap", f"groups were matched with those of other publishers by it; {_BEGIN_ANEW}"),
    "search": _number("privacy.search", "holds from that release on"),
    "triggers": _triggers,
    "shards": _refused("scale.shards", f"the cuts were made for it and stay for ever; {_BEGIN_ANEW}"),
    "full_every": _number("release.full_every", "holds from that release on"),
    "case_ids": _refused("release.case_ids", f"pseudonyms are listed in every release or in none; {_BEGIN_ANEW}"),
}
