"""What an attacker learns who keeps every release and compares them, from Shoal's releases or from another publisher's.

The attacker knows the quasi-identifiers, the row and the group of every person, and asks three questions:

- *rows*: follow one person's row through the releases since the person last moved. How many people of the newest table
  fit all the regions that the row had? Fewer than k is a failure.
- *values*: how sure is one sensitive value of one person, from all releases together (Wong's breach)? More than 1/l is
  a failure. A group shown again with the same people and values says nothing new, and counts once.
- *pinned*: suppose that nobody's values ever change. For how many people is then just one value left, and a protected
  one? Shoal promises nothing about this question. It is shown because people ask.

`shoal.streams.demo.naive` is the publisher that Shoal is compared with.
"""

import json
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from shoal.core.events.intake import Intake
from shoal.core.events.window import PUT
from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Attribute, Policy
from shoal.streams.files.release_folder import ReleaseFiles, read_regions, row_count

Box = tuple[tuple[float, float], ...]  # lowest and highest value of each attribute, both included


class Row(NamedTuple):
    """A person of one table, in codes."""

    qid: tuple[float, ...]
    values: tuple[int, ...]


Table = dict[str, Row]


class Group(NamedTuple):
    """What is published of one group: how many people, and how often each node of the sensitive hierarchy."""

    people: int
    shown: Mapping[int, int]


@dataclass
class View:
    """One release as this attacker sees it. A group keeps its key while it is carried."""

    region: dict[str, Box] = field(default_factory=dict)
    group: dict[str, Hashable] = field(default_factory=dict)
    groups: dict[Hashable, Group] = field(default_factory=dict)


@dataclass(frozen=True)
class Findings:
    """How many people the attacker came too close to, of `present` in the newest table or `ever` published."""

    present: int
    rows_below_k: int
    ever: int
    values_above_bound: int
    surest: float
    pinned: int


def tables(policy: Policy, events: Iterable[Mapping[str, Any]]) -> Iterator[Table]:
    """Yields the true table at each release of a stream of events, without the rejected events."""
    intake = Intake(policy, {})  # its window is never cut, so it has the whole record of everyone present
    for event in events:
        if event.get("op") != "release":
            intake.take(dict(event))
            continue
        yield {
            person: Row(qid, values)
            for person, (kind, qid, values, _, _) in intake.window.items()
            if kind == PUT and qid is not None and values is not None
        }


def view_of(policy: Policy, release: ReleaseFiles, members: Iterable[tuple[str, str, str]]) -> View:
    """One of Shoal's releases; `members` are (id, group, cell) of everyone in it."""
    view, nodes = View(), policy.sensitive.hierarchy.node_of
    boxes: dict[str, Box] = {
        cell: tuple(_side(attribute, region[attribute.name]) for attribute in policy.attributes)
        for cell, region in read_regions(release.cells).items()
    }
    for record in map(json.loads, release.groups):
        people = sum(map(row_count, record["cells"].values()))
        view.groups[record["group"]] = Group(people, {nodes[label]: n for label, n in record["sensitive"].items()})
    for person, group, cell in members:
        view.region[person], view.group[person] = boxes[cell], group
    return view


def learn(policy: Policy, series: Sequence[Table], views: Sequence[View]) -> Findings:
    """Asks the three questions; `series` are the true tables behind `views`."""
    surest = list(_surest(policy, views).values())
    return Findings(
        present=len(views[-1].region),
        rows_below_k=sum(fit < policy.k for fit in _who_fits(series, views).values()),
        ever=len(surest),
        values_above_bound=sum(breach > 1 / policy.l + 1e-12 for breach in surest),
        surest=max(surest, default=0.0),
        pinned=_pinned(policy, series, views),
    )


def _who_fits(series: Sequence[Table], views: Sequence[View]) -> dict[str, int]:
    """For each person of the newest release: how many people fit all the regions that the person's row has had."""
    newest = series[-1]
    columns = np.array([row.qid for row in newest.values()], dtype=np.float64)
    fits: dict[Box, int] = {}
    found = {}
    for person in views[-1].region:
        box = views[-1].region[person]
        for table, view in zip(reversed(series), reversed(views), strict=True):
            if person not in table or table[person].qid != newest[person].qid:
                break
            box = _both(box, view.region[person]) if person in view.region else box
        if box not in fits:
            low, high = np.array(box).T
            fits[box] = int(np.all((columns >= low) & (columns <= high), axis=1).sum())
        found[person] = fits[box]
    return found


def _surest(policy: Policy, views: Sequence[View]) -> dict[str, float]:
    """For everyone ever published: the largest breach of any value that is not open."""
    survival: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(lambda: 1.0))
    counted: set[tuple[str, Hashable]] = set()
    for view in views:
        chances = {key: _chances(policy, group) for key, group in view.groups.items()}
        for person, key in view.group.items():
            account = survival[person]
            if (person, key) not in counted:
                counted.add((person, key))
                for value, chance in chances[key].items():
                    account[value] *= 1 - chance
    return {person: 1 - min(account.values(), default=1.0) for person, account in survival.items()}


def _chances(policy: Policy, group: Group) -> dict[int, float]:
    """w/n of each value that a group shows, itself or by a node above it. A "*" says nothing and takes a person."""
    hierarchy, is_open = policy.sensitive.hierarchy, policy.sensitive.open
    weights: dict[int, float] = defaultdict(float)
    for node, count in group.shown.items():
        for value in _under(hierarchy, node) if node else ():
            weights[value] += count / len(_under(hierarchy, node))
    people = max(1, group.people - group.shown.get(0, 0))
    return {value: min(1.0, weight / people) for value, weight in weights.items() if value not in is_open}


def _pinned(policy: Policy, series: Sequence[Table], views: Sequence[View]) -> int:
    """How many people never changed their values, and were in groups that share just one value, a protected one."""
    candidates: dict[str, set[int]] = {}
    for table, view in zip(series, views, strict=True):
        listed = {key: _listed(policy.sensitive.hierarchy, group) for key, group in view.groups.items()}
        for person, key in view.group.items():
            if table[person].values == series[-1].get(person, table[person]).values:
                candidates[person] = candidates.get(person, listed[key]) & listed[key]
    return sum(len(left) == 1 and not left <= policy.sensitive.open for left in candidates.values())


def _listed(hierarchy: Hierarchy, group: Group) -> set[int]:
    return {value for node in group.shown for value in _under(hierarchy, node)}


def _under(hierarchy: Hierarchy, node: int) -> range:
    return range(hierarchy.first[node], hierarchy.last[node])


def _both(one: Box, other: Box) -> Box:
    return tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))


def _side(attribute: Attribute, part: Mapping[str, Any]) -> tuple[float, float]:
    """One attribute of a published region in codes."""
    if attribute.hierarchy is not None:
        nodes = [attribute.hierarchy.node_of[label] for label in part["nodes"]]
        return min(attribute.hierarchy.first[n] for n in nodes), max(attribute.hierarchy.last[n] for n in nodes) - 1
    if "below" in part:
        return part["min"], float(np.nextafter(part["below"], -np.inf))
    return part["min"], part["max"]
