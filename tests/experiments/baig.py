"""Adult split into five publishers who share people (Baig, section 6): what putting their tables together gives away.

Four others have published before: 2,000 people each and u more, whom the fifth, this one, has too. Both ways in which
they may publish start from Mondrian's cells. *As they are*: each cell with all its values. *Each value once*: each cell
cut into groups of so many different values, as Anatomy does; people left over are not published.

Sensitive is the occupation, of which Adult has 14 and Baig 50, or the *job*, occupation and employer together: 81. k is
that of Baig's running example. Queries are Baig's: a range of the share delta of every attribute and of the values.
Baig says nothing of delta, and with two sexes and seven marital states one delta leaves only a few queries to ask: each
query draws its own, within bounds.
"""

import csv
import gzip
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from shoal.core.audit.criteria.composition import Composition, Exposed
from shoal.core.audit.criteria.others import read_others
from shoal.core.audit.reading.truth import Record
from shoal.core.cells.region import domain
from shoal.core.cells.tree import Rows
from shoal.core.events.window import PUT
from shoal.core.measure.query import Query, Range, Truth, count_true, estimate, truth_of
from shoal.core.measure.release_reader import read_columns
from shoal.core.overlap.external import External, ExternalGroup, parse_external
from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.hierarchy import parse_hierarchy
from shoal.core.policy.policy import Policy
from shoal.core.policy.strategy import Adaptive
from shoal.core.state import State
from tests.experiments.adult import FOLDER, SEED, load_adult
from tests.experiments.mondrian import Points, cut
from tests.experiments.series import Figures, Watcher

ATTRIBUTES = ("age", "sex", "marital-status", "education")  # Baig's four
ALONE = 2_000  # people that only one publisher has
SHARED = (1_000, 2_000, 3_000, 4_000, 5_000)
ALPHAS = (2, 3, 4, 6, 8, 10)
OTHERS = 4
MANY = 50_000
SELECTIVITY = 0.3  # of the queries of `coarse`
DELTAS = {"narrow": (0.5, 0.6), "middle": (0.7, 0.8), "wide": (0.8, 0.95)}
SENSITIVE = ("job", "occupation")

Publication = dict[str, Any]


class Way(NamedTuple):
    """How another publisher releases: least rows of a cell, and different values in a group; 0 for all there are."""

    cell: int
    different: int


FOUR, TEN, PLAIN = Way(12, 4), Way(100, 10), Way(12, 0)


@dataclass(frozen=True)
class Five:
    """The data: quasi-identifiers and, in the last column, occupation, in codes."""

    policy: Policy
    points: Points

    def other(self, name: str, rows: Rows, way: Way) -> Publication:
        """What another publisher releases of these rows."""
        width = np.maximum(1, np.ptp(self.points[rows, :-1], axis=0))
        groups = []
        for part in cut(self.points[:, :-1], rows, way.cell, width):
            box = self.points[part, :-1]
            region = {
                a.name: {"min": low, "max": high}
                if a.hierarchy is None
                else {"nodes": list(a.hierarchy.leaves[low : high + 1])}
                for a, low, high in zip(
                    self.policy.attributes, box.min(axis=0).tolist(), box.max(axis=0).tolist(), strict=True
                )
            }
            counts = np.bincount(self.points[part, -1])
            whole = {value: int(counts[value]) for value in np.flatnonzero(counts).tolist()}
            for shown in _evenly(counts, way.different) if way.different else [whole]:
                labels = {self.policy.sensitive.hierarchy.leaves[value]: times for value, times in shown.items()}
                groups.append({"region": region, "sensitive": labels})
        return {"op": "external", "publisher": name, "groups": groups}

    def release(self, rows: Rows, policy: Policy, publications: Sequence[Publication]) -> tuple[Plan, float]:
        """This publisher's release beside those, and the seconds of a core it took."""
        others: list[ExternalGroup] = []
        for event in publications:
            read = parse_external(event, policy)
            assert isinstance(read, External)
            others += read.groups
        records = self.points[rows].tolist()
        deltas = {f"p{at}": (PUT, tuple(codes[:-1]), (codes[-1],), None, None) for at, codes in enumerate(records)}
        begun = time.process_time()
        made = plan(State.empty(policy, b"experiment"), Window(None, {0: deltas}, others), policy, 1)
        return made, time.process_time() - begun

    def attack(self, rows: Rows, made: Plan, policy: Policy, publications: Sequence[Publication]) -> Exposed:
        """The composition attack, as the auditor runs it."""
        attacker = Composition(policy)
        attacker.look([other for event in publications for other in read_others(event, policy)])
        table = {
            f"p{at}": Record(tuple(codes[:-1]), frozenset(codes[-1:]), None)
            for at, codes in enumerate(self.points[rows].tolist())
        }
        published = read_columns(policy, made.release.records)
        shown: dict[str, set[int]] = {name: set() for name in published.group_names}
        for group, node in zip(published.shown_group.tolist(), published.shown_node.tolist(), strict=True):
            shown[published.group_names[group]].add(node)
        people: dict[str, list[str]] = {name: [] for name in published.group_names}
        for person, name, _ in made.release.members:
            people[name].append(person)
        return attacker.attack(((people[name], shown[name]) for name in people), table)


def _evenly(counts: Rows, different: int) -> Iterator[dict[int, int]]:
    """Groups of so many different values, the most frequent first, as long as there are enough."""
    left = counts.copy()
    while True:
        values = np.argsort(-left, kind="stable")[:different]
        if len(values) < different or left[values[-1]] == 0:
            return
        left[values] -= 1
        yield dict.fromkeys(values.tolist(), 1)


def load_five(sensitive: str = "occupation", k: int = 10) -> Five:
    adult = load_adult()
    places = [at for at, attribute in enumerate(adult.policy.attributes) if attribute.name in ATTRIBUTES]
    attributes = tuple(adult.policy.attributes[at] for at in places)
    policy = replace(
        adult.policy, attributes=attributes, sampling=0.5, strategy=Adaptive(releases=1), k=k, headroom=k // 2
    )
    five = Five(policy, adult.points[:, [*places, -1]])
    return five if sensitive == "occupation" else _with_jobs(five)


def _with_jobs(five: Five) -> Five:
    """The same people with what they do and for whom."""
    with gzip.open(FOLDER / "adult.csv.gz", "rt", encoding="utf-8") as text:
        people = list(csv.DictReader(text))
    jobs = [(f"{person['occupation']}, {person['workclass']}", person["occupation"]) for person in people]
    chains = sorted(set(jobs), key=lambda chain: chain[::-1])
    hierarchy = parse_hierarchy("".join(f"{job};{occupation};*\n" for job, occupation in chains))
    points = five.points.copy()
    points[:, -1] = [hierarchy.leaf_code[job] for job, _ in jobs]
    return Five(replace(five.policy, sensitive=five.policy.sensitive._replace(hierarchy=hierarchy)), points)


def draw_baig(policy: Policy, deltas: tuple[float, float], count: int) -> tuple[Query, ...]:
    """Queries with a range of the share delta on every attribute and on the sensitive one."""
    random = np.random.default_rng(SEED)
    domains = [*(domain(attribute) for attribute in policy.attributes), (0, len(policy.sensitive.hierarchy.leaves))]

    def draw(low: float, high: float, delta: float) -> Range:
        width = max(1, round((high - low) * delta))
        begin = int(random.integers(int(low), int(high) - width + 1))
        return Range(begin, begin + width)

    drawn = [[draw(low, high, delta) for low, high in domains] for delta in random.uniform(*deltas, count)]
    return tuple(Query(tuple(enumerate(ranges[:-1])), ranges[-1]) for ranges in drawn)


def median_error(made: Plan, policy: Policy, truth: Truth, queries: tuple[Query, ...]) -> float:
    """The median of |answer - truth| / truth over queries that select something, everybody in the truth."""
    published = read_columns(policy, made.release.records)
    answers = estimate(published, queries) * len(truth.leaves) / max(1, published.rows)
    right = count_true(truth, queries)
    return float(np.median((np.abs(answers - right) / np.maximum(right, 1))[right > 0]))


def beside(five: Five, u: int, alpha: int, queries: int, way: Way) -> Figures:
    """One release beside four others that share u people each with it."""
    order = np.random.default_rng(SEED).permutation(len(five.points))
    alone, shared = order[: 5 * ALONE].reshape(5, ALONE), order[5 * ALONE :]
    theirs = [np.concatenate([alone[at], shared[at * u : (at + 1) * u]]) for at in range(OTHERS)]
    ours = np.concatenate([alone[OTHERS], shared[: OTHERS * u]])
    policy = replace(five.policy, overlap=alpha)
    publications = [five.other(f"q{at}", rows, way) for at, rows in enumerate(theirs)]
    found: Figures = {"u": u, "alpha": alpha, "rows": len(ours)}
    truth = truth_of(policy, [(tuple(codes[:-1]), (codes[-1],)) for codes in five.points[ours].tolist()])
    for name, known in (("without", []), ("with", publications)):
        made, seconds = five.release(ours, policy, known)
        exposed = five.attack(ours, made, policy, publications)
        published = read_columns(policy, made.release.records)
        values = int(published.shown_count.sum())
        found |= {
            "overlapping": exposed.overlapping,
            f"exposed_{name}": exposed.exposed / max(1, exposed.overlapping),
            f"few_{name}": exposed.few / max(1, exposed.overlapping),
            f"counterfeits_{name}": int(published.spare.sum()) / values,
            f"suppressed_{name}": int(published.shown_count[published.shown_node == 0].sum()) / values,
            f"seconds_{name}": seconds,
        }
        for ranges, deltas in DELTAS.items():
            error = median_error(made, policy, truth, draw_baig(policy, deltas, queries))
            found[f"error_{name}_{ranges}"] = error
    return found


def many(five: Five, rows: int, way: Way) -> Figures:
    """As many rows as in each of four other tables, drawn with replacement: the seconds with and without them."""
    random = np.random.default_rng(SEED)
    publications = [five.other(f"q{at}", random.integers(0, len(five.points), rows), way) for at in range(OTHERS)]
    ours = random.integers(0, len(five.points), rows)
    without = min(five.release(ours, five.policy, [])[1] for _ in range(2))
    beside_them = min(five.release(ours, five.policy, publications)[1] for _ in range(2))
    groups = sum(len(event["groups"]) for event in publications)
    return {"rows": rows, "groups": groups, "without_s": without, "with_s": beside_them, "times": beside_them / without}


def experiment(watch: Watcher, *, quick: bool = False) -> Figures:
    """Baig's figures 1 to 4, for both ways in which the others may publish, and both sensitive attributes."""
    shared, alphas, queries = ((1_000,), (2, 4), 50) if quick else (SHARED, ALPHAS, 1_000)
    found: Figures = {}
    for sensitive in SENSITIVE:
        five = load_five(sensitive, 4)
        for kind, few, several in (("even", FOUR, TEN), ("plain", PLAIN, PLAIN)):
            watch(f"{sensitive}, others {kind}: {2 * len(shared) + len(alphas)} releases")
            found[f"{sensitive}, {kind}"] = {
                "by_u": [beside(five, u, 2, queries, few) for u in shared],
                "by_u_at_six": [beside(five, u, 6, queries, several) for u in shared if kind == "even"],
                "by_alpha": [beside(five, SHARED[0], alpha, queries, several) for alpha in alphas],
                "many": many(five, 2_000 if quick else MANY, few),
            }
    return found
