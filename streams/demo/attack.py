"""What an attacker learns who keeps every release and compares them, from Shoal's releases or from another publisher's.

The attacker knows the quasi-identifiers, the rows and the groups of every person, and asks two questions:

- *rows*: follow one person's row through the releases since the person last moved. How many people of the newest table
  fit all the regions that the row had? Fewer than k is a failure.
- *values*: believe that a value mostly stays from one release to the next, and work out from all of them what each
  person has (the auditor's persistence attack). Whom does the attacker name a protected value of, and is it right?

`shoal.streams.demo.naive` is the publisher that Shoal is compared with.
"""

import json
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from shoal.core.audit.attack.persistence import Claims, PersistenceAttack
from shoal.core.audit.attack.shown import ShownGroup, tokens_by_node
from shoal.core.events.intake import Intake
from shoal.core.events.window import PUT
from shoal.core.policy.policy import Attribute, Policy
from shoal.streams.files.release_folder import ReleaseFiles, read_regions

STAY = 0.95  # how many of a clinic's diagnoses stay from one night to the next, as the attacker believes

Box = tuple[tuple[float, float], ...]  # lowest and highest value of each attribute, both included


class Row(NamedTuple):
    """A person of one table, in codes."""

    qid: tuple[float, ...]
    values: tuple[int, ...]


Table = dict[str, Row]


class Group(NamedTuple):
    """What the attacker knows of one group: whose its rows are, and how often it shows each node of the hierarchy.

    In a plain group every row has the one value that is shown.
    """

    rows: Sequence[str]
    shown: Mapping[int, int]
    is_plain: bool = False


@dataclass
class View:
    """One release as this attacker sees it. `is_by_person`: a row stands for all values of its person, or for one."""

    region: dict[str, Box] = field(default_factory=dict)
    groups: dict[Hashable, Group] = field(default_factory=dict)
    is_by_person: bool = True


@dataclass(frozen=True)
class Findings:
    """Whom the attacker came too close to, of `present` people in the newest release, and what the attacker claims."""

    present: int
    rows_below_k: int
    claims: Claims


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
    """One of Shoal's releases; `members` are (id, group, cell) of every row in it."""
    view, nodes = View(is_by_person=policy.values == "redrawn"), policy.sensitive.hierarchy.node_of
    boxes: dict[str, Box] = {
        cell: tuple(_side(attribute, region[attribute.name]) for attribute in policy.attributes)
        for cell, region in read_regions(release.cells).items()
    }
    rows: dict[str, list[str]] = defaultdict(list)
    for person, group, cell in members:
        view.region[person] = boxes[cell]
        rows[group].append(person)
    for record in map(json.loads, release.groups):
        mine, shown = rows[record["group"]], {nodes[label]: count for label, count in record["sensitive"].items()}
        is_plain = not view.is_by_person and list(shown.values()) == [len(mine)] and 0 not in shown
        view.groups[record["group"]] = Group(mine, shown, is_plain)
    return view


def learn(policy: Policy, series: Sequence[Table], views: Sequence[View]) -> Findings:
    """Asks both questions; `series` are the true tables behind `views`."""
    hierarchy = policy.sensitive.hierarchy
    attack = PersistenceAttack(len(hierarchy.leaves), views[-1].is_by_person)
    for table, view in zip(series, views, strict=True):
        held = {person: frozenset(row.values) for person, row in table.items()}
        groups = (
            ShownGroup(key, group.rows, tokens_by_node(hierarchy, group.shown), group.is_plain)
            for key, group in view.groups.items()
        )
        attack.see(groups, held)
    (claims,) = attack.claims(1 / policy.l, policy.sensitive.open, (STAY,))
    return Findings(
        present=len(views[-1].region),
        rows_below_k=sum(fit < policy.k for fit in _who_fits(series, views).values()),
        claims=claims,
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
