"""Adult split into five publishers who share people (Baig, section 6): what putting their tables together gives away.

Four others have published before: 2,000 people each and u more, whom the fifth, this one, has too. Both ways in which
they may publish start from Mondrian's cells. *As they are*: each cell with all its values. *Each value once*: each cell
cut into groups of so many different values, as Anatomy does; whoever is left over is not published.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from core.audit.composition import Composition, Exposed
from core.audit.others import read_others
from core.audit.truth import Record
from core.intake import PUT
from core.overlap.external import External, ExternalGroup, parse_external
from core.plan import Plan, Window, plan
from core.policy import Policy, Strategy
from core.published import read_published
from core.query import Query, count_true, draw_queries, estimate, query_error, truth_of
from core.state import State
from core.tree import Rows
from tests.experiments.adult import SEED, load_adult
from tests.experiments.mondrian import Points, cut
from tests.experiments.series import Figures, Watcher

ATTRIBUTES = ("age", "sex", "marital-status", "education")  # Baig's four
ALONE = 2_000  # people that only one publisher has
SHARED = (1_000, 2_000, 3_000, 4_000, 5_000)
ALPHAS = (2, 3, 4, 6, 8, 10)
OTHERS = 4
MANY = 50_000
SELECTIVITY = 0.3

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
        published = read_published(policy, made.release.records)
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


def load_five() -> Five:
    adult = load_adult()
    places = [at for at, attribute in enumerate(adult.policy.attributes) if attribute.name in ATTRIBUTES]
    attributes = tuple(adult.policy.attributes[at] for at in places)
    policy = replace(adult.policy, attributes=attributes, sampling=0.5, strategy=Strategy("adaptive", 1, None))
    return Five(policy, adult.points[:, [*places, -1]])


def beside(five: Five, u: int, alpha: int, queries: tuple[Query, ...], way: Way) -> Figures:
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
        published = read_published(policy, made.release.records)
        answers = estimate(published, queries) * len(ours) / max(1, published.rows)
        values = int(published.shown_count.sum())
        found |= {
            "overlapping": exposed.overlapping,
            f"exposed_{name}": exposed.exposed / max(1, exposed.overlapping),
            f"few_{name}": exposed.few / max(1, exposed.overlapping),
            f"counterfeits_{name}": int(published.counterfeits.sum()) / values,
            f"suppressed_{name}": int(published.shown_count[published.shown_node == 0].sum()) / values,
            f"error_{name}": query_error(answers, count_true(truth, queries), len(truth.leaves)).median,
            f"seconds_{name}": seconds,
        }
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
    """Baig's figures 1 to 4, for both ways in which the others may publish."""
    five = load_five()
    shared, alphas = ((1_000,), (2, 4)) if quick else (SHARED, ALPHAS)
    queries = draw_queries(five.policy, count=50 if quick else 1_000, selectivity=SELECTIVITY)
    found: Figures = {}
    for kind, by_u, by_alpha in (("even", FOUR, TEN), ("plain", PLAIN, PLAIN)):
        watch(f"others {kind}: {len(shared) + len(alphas)} releases")
        found[kind] = {
            "by_u": [beside(five, u, 2, queries, by_u) for u in shared],
            "by_alpha": [beside(five, SHARED[0], alpha, queries, by_alpha) for alpha in alphas],
            "many": many(five, 2_000 if quick else MANY, by_u),
        }
    return found
