"""The engine alone, in one process: the tree beside bare numpy, whole releases of a million people, fifty in a row."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from shoal.core.cells.mondrian import grow
from shoal.core.cells.tree import Tree
from shoal.core.draft import Draft
from shoal.core.events.window import GONE, PUT
from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.policy import Policy, build_policy
from shoal.core.state import State
from shoal.streams.memory import without_cycle_search
from tests.bench.adult import Adult, K, load_adult, load_adult_by_years, ncp_of_rows
from tests.bench.figures import Figures, apart, median_of, say, timed
from tests.bench.load import PRIVACY, VALUES, sensitive_of
from tests.bench.mondrian import Numbers, Points, by_level, by_recursion

HIGHEST = 9_999
_COUNTED = ("rows", "withheld", "suppressed", "waiting", "counterfeits", "vacant", "max_breach")


def measure(*, quick: bool = False) -> Figures:
    many = 100_000 if quick else 1_000_000
    steady, rounds = (20_000, 10) if quick else (100_000, 50)
    say("engine: the tree on Adult")
    found: Figures = {"adult": tree_on_adult()}
    say(f"engine: the tree on {many:,} rows")
    found["uniform"] = tree_on_uniform(many)
    for values in ("lasting", "redrawn"):
        say(f"engine: {values}, releases of {many:,} people")
        found[values] = {"releases": apart(whole_releases, many, values)}
        say(f"engine: {values}, deltas of {many:,} people")
        found[values]["deltas"] = [apart(delta_releases, size, values) for size in (many // 10, many)]
        say(f"engine: {values}, {rounds} releases of {steady:,} people")
        found[values]["steady"] = apart(steady_releases, steady, rounds, values)
    return found


# -- the tree alone -----------------------------------------------------------------------------------------------


def tree_on_adult() -> Figures:
    adult, by_years = load_adult(), load_adult_by_years()
    found = _beside(adult.policy, adult.points, K, runs=9)
    return found | tree_losses(adult) | {"by_years": tree_losses(by_years, by_years.by_appearance())}


def tree_losses(adult: Adult, codes: Points | None = None) -> Figures:
    """What the tree and a bare Mondrian on these codes lose; `steps` is another way of counting categories."""
    attributes, points = adult.policy.attributes, adult.points
    tree, leaf = _grown(adult.policy, points, K)
    cells, classes, rows = np.unique(leaf, return_inverse=True, return_counts=True)
    level = by_level(points if codes is None else codes, K)
    return {
        "ncp": ncp_of_rows(attributes, points, classes),
        "ncp_steps": ncp_of_rows(attributes, points, classes, steps=True),
        "ncp_published": float((tree.losses(cells) * rows).sum() / rows.sum()),
        "numpy_ncp": ncp_of_rows(attributes, points, level),
        "numpy_ncp_steps": ncp_of_rows(attributes, points, level, steps=True),
        "classes": len(cells),
        "numpy_classes": int(level.max()) + 1,
    }


def tree_on_uniform(count: int) -> Figures:
    policy, points = policy_of_crowd(), uniform(count)
    _, leaf = _grown(policy, points, K)
    classes = np.unique(leaf, return_inverse=True)[1]
    return _beside(policy, points, K, runs=3) | {
        "ncp": ncp_of_rows(policy.attributes, points, classes),
        "numpy_ncp": ncp_of_rows(policy.attributes, points, by_level(points, K)),
    }


def uniform(count: int) -> Points:
    """Rows in three attributes, every value equally likely."""
    return np.random.default_rng(1).integers(0, HIGHEST + 1, (count, 3))


def _beside(policy: Policy, points: Points, k: int, runs: int) -> Figures:
    """The tree and both bare Mondrians on the same rows, in one go, headroom 0."""
    tree = median_of(lambda: _grown(policy, points, k), runs)
    level = median_of(lambda: by_level(points, k), runs)
    found: Figures = {
        "rows": len(points),
        "k": k,
        "tree_s": tree.core_s,
        "numpy_s": level.core_s,
        "of_numpy": tree.core_s / level.core_s,
        "tree_rows_per_s": len(points) / tree.core_s,
    }
    recursion = median_of(lambda: by_recursion(points, k), min(runs, 3))
    return found | {"recursive_s": recursion.core_s, "of_recursive": tree.core_s / recursion.core_s}


def _grown(policy: Policy, points: Points, k: int) -> tuple[Tree, Numbers]:
    tree, leaf = Tree(policy.attributes), np.zeros(len(points), dtype=np.int64)
    grow(tree, list(points.T), leaf, [(0, np.arange(len(points)))], k)
    return tree, leaf


# -- whole releases -----------------------------------------------------------------------------------------------


def whole_releases(people: int, values: str, rounds: int = 5) -> Figures:
    """A first release, and some after 1 % changed. Seconds of a core; bytes are step 8, the rest is planning."""
    first, *later = _releases(people, 1 + rounds, values)
    found: Figures = {"people": people, "changed": later[0]["window"]}
    for name in ("plan_s", "bytes_s", "total_s", "apply_s"):
        found[f"first_{name}"] = first[name]
        found[f"later_{name}"] = median(release[name] for release in later)
    return found | {
        "planning_faster": found["first_plan_s"] / found["later_plan_s"],
        "first_wall_s": first["wall_s"],
        "later_wall_s": median(release["wall_s"] for release in later),
        "release_mib": first["bytes"] / 1024 / 1024,
        **{name: later[-1][name] for name in _COUNTED},
    }


def delta_releases(people: int, values: str, rounds: int = 5) -> Figures:
    """Releases that hold only what changed, after 1 % did: bytes beside the full release of the same table, the time of
    step 8, and what it takes after a restart, when what stood before must be made again.
    """
    first, *later, restarted = _releases(people, 2 + rounds, values, full_every=1000, restart_at=2 + rounds)
    return {
        "people": people,
        "full_mib": first["bytes"] / 1024 / 1024,
        "delta_mib": median(release["bytes"] for release in later) / 1024 / 1024,
        "delta_of_full": median(release["bytes"] for release in later) / first["bytes"],
        "first_bytes_s": first["bytes_s"],
        "later_bytes_s": median(release["bytes_s"] for release in later),
        "restarted_bytes_s": restarted["bytes_s"],
    }


def steady_releases(people: int, rounds: int, values: str) -> Figures:
    """Many releases at one size, 1 % changed each: does the last take longer than the first?"""
    _, *later = list(_releases(people, 1 + rounds, values))
    fifth = max(3, rounds // 5)
    early, late = (median(release["total_s"] for release in part) for part in (later[:fifth], later[-fifth:]))
    return {
        "people": people,
        "releases": rounds,
        "early_s": early,
        "late_s": late,
        "late_of_early": late / early,
        "each_s": [release["total_s"] for release in later],
        **{name: later[-1][name] for name in _COUNTED},
    }


def _releases(
    people: int, rounds: int, values: str, full_every: int = 1, restart_at: int | None = None
) -> Iterator[Figures]:
    """Releases one after the other; before `restart_at`, memory forgets what the last release showed."""
    policy = replace(policy_of_crowd(values), full_every=full_every)
    state, crowd = State.empty(policy, b"bench"), _Crowd(people)
    window = dict(crowd.present)
    emitting = _EmitClock()
    for number in range(1, rounds + 1):
        emitting.core_s = 0.0
        if number == restart_at:
            state.tails, state.shown = {}, None
        with without_cycle_search():  # as worker and replay do
            took = timed(partial(plan, state, Window(None, {0: window}), policy, number))
        made: Plan = took.result
        apply_s = timed(partial(state.apply, made.change)).core_s
        manifest = json.loads(made.release.manifest)
        yield {
            "window": len(window),
            "plan_s": took.core_s - emitting.core_s,
            "bytes_s": emitting.core_s,
            "total_s": took.core_s,
            "wall_s": took.wall_s,
            "apply_s": apply_s,
            "bytes": sum(map(len, made.release.records)),
            **{name: manifest[name] for name in _COUNTED},
        }
        window = crowd.change(people // 100)


class _EmitClock:
    """Times step 8 of the plan, which is inside it."""

    def __init__(self) -> None:
        self.core_s = 0.0
        draft: Any = Draft
        emit = draft.emit

        def timed_emit(*arguments: Any) -> Any:
            begun = time.process_time()
            try:
                return emit(*arguments)
            finally:
                self.core_s += time.process_time() - begun

        draft.emit = timed_emit


class _Crowd:
    """People in three uniform attributes with Zipf values, and the windows that change some of them."""

    def __init__(self, people: int) -> None:
        self._random = np.random.default_rng(people)
        weights = 1 / np.arange(1, VALUES + 1) ** 1.1
        self._weights = weights / weights.sum()
        self._born = 0
        self.present: dict[str, Any] = {}
        self.present.update(self._newcomers(people))

    def change(self, count: int) -> dict[str, Any]:
        """A third each leave, change their value, and arrive."""
        third = count // 3
        ids = list(self.present)
        chosen = [ids[index] for index in self._random.choice(len(ids), 2 * third, replace=False)]
        window: dict[str, Any] = {}
        for person, values in zip(chosen[:third], self._values(third), strict=True):
            window[person] = self.present[person] = (PUT, self.present[person][1], values, None, None)
        for person in chosen[third:]:
            del self.present[person]
            window[person] = (GONE, None, None, None, None)
        newcomers = self._newcomers(count - 2 * third)
        self.present.update(newcomers)
        return window | newcomers

    def _newcomers(self, count: int) -> dict[str, Any]:
        first, self._born = self._born, self._born + count
        points = self._random.integers(0, HIGHEST + 1, (count, 3)).tolist()
        records = zip(points, self._values(count), strict=True)
        return {
            f"person-{first + i:08d}": (PUT, tuple(qid), values, None, None) for i, (qid, values) in enumerate(records)
        }

    def _values(self, count: int) -> list[tuple[int, ...]]:
        return [(value,) for value in self._random.choice(VALUES, count, p=self._weights).tolist()]


def policy_of_crowd(values: str = "lasting") -> Policy:
    document = {
        "table": "bench",
        "attributes": {name: {"type": "int", "min": 0, "max": HIGHEST} for name in "abc"},
        "sensitive": sensitive_of(values, "s"),
        "privacy": PRIVACY[values],
    }
    return build_policy(document, {}, b"bench")
