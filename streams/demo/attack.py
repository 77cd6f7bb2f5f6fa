"""What an attacker who keeps and compares every release learns, from Shoal's releases or from another publisher's.

The attacker knows the quasi-identifiers, the rows and the groups of every person, and asks three questions:

- *rows*: follow one person's row through the releases since the person last moved. How many people of the newest table
  fit all the regions that the row had? Fewer than k is a failure.
- *values*: how sure is one sensitive value of one person, from all releases together? More than 1/l is a failure. In a
  redrawn table that is Wong's breach; a group shown again with the same people and values says nothing new, and counts
  once. In a lasting one it is j/(m − c), for j values that were shown among the same m.
- *claims*: suppose that values mostly stay as they are. About whom would the attacker then claim to know a value, and
  how often is that right? In a lasting table more right claims than 1/l of them, and not by chance, are a failure. For
  other publishers it is what they give away; for a redrawn table Shoal promises nothing. And of a lasting table: what
  would somebody claim who knows how long each value lasts? About that nothing is promised.

`shoal.streams.demo.naive` is the publisher that Shoal is compared with.
"""

import json
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from shoal.core.audit.attack.duration import Lasted
from shoal.core.audit.attack.persistence import Claims
from shoal.core.audit.attack.played import NaiveAttack, TableAttack
from shoal.core.events.intake import Intake
from shoal.core.events.window import PUT
from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Attribute, Policy
from shoal.core.published.manifest import PublishedRelease
from shoal.streams.files.release_folder import read_regions, row_count

STAY = 0.8  # how likely the attacker takes a value to be the same in the next release

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
    """One release as this attacker sees it: where people are, and the groups with the person of each row.

    A group keeps its key while it is carried.
    """

    region: dict[str, Box] = field(default_factory=dict)
    groups: dict[Hashable, Group] = field(default_factory=dict)
    rows: dict[Hashable, list[str]] = field(default_factory=lambda: defaultdict(list))
    values: dict[Hashable, list[int | None]] = field(default_factory=lambda: defaultdict(list))  # of rows, if known


@dataclass(frozen=True)
class Findings:
    """How many people the attacker came too close to, of `present` in the newest table or `ever` published."""

    present: int
    rows_below_k: int
    ever: int
    values_above_bound: int
    surest: float
    claims: Claims
    lasted: Lasted | None = None


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


def view_of(policy: Policy, release: PublishedRelease, members: Iterable[tuple[str, str, str, str | None]]) -> View:
    """One of Shoal's releases; `members` are (id, group, cell, value) of every row, without a value if redrawn."""
    view, nodes, leaves = View(), policy.sensitive.hierarchy.node_of, policy.sensitive.hierarchy.leaf_code
    boxes: dict[str, Box] = {
        cell: tuple(_side(attribute, region[attribute.name]) for attribute in policy.attributes)
        for cell, region in read_regions(release.cells).items()
    }
    for record in map(json.loads, release.groups):
        people = sum(map(row_count, record["cells"].values()))
        view.groups[record["group"]] = Group(people, {nodes[label]: n for label, n in record["sensitive"].items()})
    for person, group, cell, value in members:
        view.region[person] = boxes[cell]
        view.rows[group].append(person)
        view.values[group].append(None if value is None else leaves[value])
    return view


def learn(policy: Policy, series: Sequence[Table], views: Sequence[View], *, is_naive: bool = False) -> Findings:
    """Asks the three questions; `series` are the true tables behind `views`, Shoal's or the naive publisher's."""
    is_lasting = policy.values == "lasting" and not is_naive
    surest = list((_surest_among(policy, views) if is_lasting else _surest(policy, views)).values())
    claims, lasted = _claims(policy, series, views, is_naive)
    return Findings(
        present=len(views[-1].region),
        rows_below_k=sum(fit < policy.k for fit in _who_fits(series, views).values()),
        ever=len(surest),
        values_above_bound=sum(breach > 1 / policy.l + 1e-12 for breach in surest),
        surest=max(surest, default=0.0),
        claims=claims,
        lasted=lasted,
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
        for key, people in view.rows.items():
            for person in people:
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


def _surest_among(policy: Policy, views: Sequence[View]) -> dict[str, float]:
    """For everyone ever published in a lasting table: j/(m − c), the most groups of theirs that show the same m values.

    A clique shows one value for all of its people. What is shown plainly is nobody's secret.
    """
    shown: dict[str, dict[frozenset[int], set[Hashable]]] = defaultdict(lambda: defaultdict(set))
    surest: dict[str, float] = {}
    for view in views:
        for key, people in view.rows.items():
            nodes = frozenset(view.groups[key].shown)
            is_clique = sum(view.groups[key].shown.values()) < len(people)
            for person in people:
                surest.setdefault(person, 0.0)
                if is_clique:
                    surest[person] = max(surest[person], 1 / max(1, len(people) - policy.insiders))
                elif len(nodes) > 1:
                    shown[person][nodes].add(key)
    for person, among in shown.items():
        told = (len(keys) / max(1, len(nodes) - policy.insiders) for nodes, keys in among.items())
        surest[person] = max(surest[person], *told)
    return surest


def _claims(
    policy: Policy, series: Sequence[Table], views: Sequence[View], is_naive: bool
) -> tuple[Claims, Lasted | None]:
    """The persistence attack, with values that stay from release to release with probability `STAY`; and durations."""
    naive, ours = NaiveAttack(policy), TableAttack(policy)
    for table, view in zip(series, views, strict=True):
        held = {person: frozenset(row.values) for person, row in table.items()}
        if is_naive:
            naive.see(view.rows.values(), held)
            continue
        rows = {key: list(zip(people, view.values.get(key, repeat(None)))) for key, people in view.rows.items()}  # noqa: B905
        ours.see(((str(key), view.groups[key].shown, mine) for key, mine in rows.items()), held)
    found = naive.claims() if is_naive else ours.claims()
    return next(claims for claims in found if claims.stay == STAY), None if is_naive else ours.lasted()


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
