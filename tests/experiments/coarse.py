"""What it costs to publish rows in cells that cover others' regions (Baig, section 5, generalize), and what it covers.

The setting is that of `baig`; the bound on what a coarse cell may lose goes from nothing, which leaves everybody at
their leaf, to none. A row is *covered* if its cell holds all of others' regions that it lies in. In the series a part
of the people is replaced by newcomers before each release, and one of the others publishes at every third.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import numpy as np

import shoal.core.overlap.generalize
from shoal.core.events.window import GONE, PUT, Delta
from shoal.core.measure.query import Query, count_true, draw_queries, estimate, query_error, truth_of
from shoal.core.measure.release_reader import read_columns
from shoal.core.overlap.external import External, ExternalGroup, parse_external
from shoal.core.overlap.overlaps import index_of
from shoal.core.person import NOBODY, NOWHERE
from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.policy import Policy
from shoal.core.policy.strategy import Adaptive
from shoal.core.state import State
from tests.experiments.adult import SEED
from tests.experiments.baig import ALONE, FOUR, OTHERS, SELECTIVITY, TEN, Five, Way, load_five
from tests.experiments.series import Figures, Watcher

NO_BOUND = 1e9
BOUNDS = (0.0, 1.5, 2.0, 4.0, NO_BOUND)
SETTINGS = ((FOUR, 1_000, 1), (FOUR, 1_000, OTHERS), (FOUR, 5_000, OTHERS), (TEN, 1_000, OTHERS))
CROWD, RELEASES, REPLACED = 6_000, 15, 0.05


def one_release(five: Five, way: Way, u: int, others: int, queries: tuple[Query, ...]) -> Iterator[Figures]:
    """The same release under every bound, beside so many publishers who share u people each with it."""
    order = np.random.default_rng(SEED).permutation(len(five.points))
    alone, shared = order[: (OTHERS + 1) * ALONE].reshape(-1, ALONE), order[(OTHERS + 1) * ALONE :]
    theirs = [np.concatenate([alone[at], shared[at * u : (at + 1) * u]]) for at in range(others)]
    publications = [five.other(f"q{at}", rows, way) for at, rows in enumerate(theirs)]
    ours = np.concatenate([alone[OTHERS], shared[: OTHERS * u]])
    truth = truth_of(five.policy, [(tuple(codes[:-1]), (codes[-1],)) for codes in five.points[ours].tolist()])
    for bound in BOUNDS:
        with patch.object(shoal.core.overlap.generalize, "COARSE_LOSS", bound):
            made, seconds = five.release(ours, five.policy, publications)
        published = read_columns(five.policy, made.release.records)
        answers = estimate(published, queries) * len(ours) / published.rows
        error = query_error(answers, count_true(truth, queries), len(truth.leaves)).median
        setting = {"others": others, "different": way.different, "u": u, "bound": _written(bound)}
        yield {**setting, **_shares(made, five.policy), "error": error, "seconds": seconds}


def _shares(made: Plan, policy: Policy) -> Figures:
    after, facts = made.change.after, json.loads(made.release.manifest)
    assert after is not None
    people, tree = after.people, after.tree
    rows = np.flatnonzero(people.group != NOBODY)
    cover = tree.smallest_over(people.leaf[rows], *index_of(policy, after.externals).hulls(people.columns, rows))
    coarse = people.coarse[rows]
    return {
        "rows": facts["rows"],
        "coarse": float(np.mean(coarse != NOWHERE)),
        "cells": len(np.unique(coarse[coarse != NOWHERE])),
        "covered": float(np.mean(cover == people.leaf[rows])),
        "ncp": facts["loss"]["ncp"],
        "withheld": facts["withheld"] / (facts["rows"] + facts["withheld"]),
        "suppressed": facts["suppressed"] / facts["rows"],
    }


def series(five: Five, bound: float, releases: int) -> Figures:
    """A crowd of which a part is replaced before each release: the means over all of them."""
    policy = replace(five.policy, sampling=1.0, strategy=Adaptive(releases=2))
    order = np.random.default_rng(SEED).permutation(len(five.points)).tolist()
    publications = [five.other(f"q{at}", np.array(order[at::OTHERS][:ALONE]), FOUR) for at in range(OTHERS)]
    state, here, waiting = State.empty(policy, b"experiment"), order[:CROWD], order[CROWD:]
    come, gone = here, list[int]()
    found: list[Figures] = []
    for number in range(1, releases + 1):
        codes = dict(zip(come, five.points[come].tolist(), strict=True))
        deltas: dict[str, Delta] = {f"p{at}": (PUT, tuple(c[:-1]), (c[-1],), None, None) for at, c in codes.items()}
        deltas |= {f"p{at}": (GONE, None, None, None, None) for at in gone}
        theirs = _groups(publications.pop(), policy) if number % 3 == 1 and publications else []
        with patch.object(shoal.core.overlap.generalize, "COARSE_LOSS", bound):
            made = plan(state, Window(None, {0: deltas}, theirs), policy, number)
        state.apply(made.change)
        found.append(_shares(made, policy))
        size = int(REPLACED * CROWD)
        gone, come = here[:size], waiting[:size]
        here, waiting = here[size:] + come, waiting[size:]
    means = {name: float(np.mean([each[name] for each in found])) for name in found[0]}
    return {"bound": _written(bound), "releases": releases, **means}


def _groups(event: Figures, policy: Policy) -> list[ExternalGroup]:
    read = parse_external(event, policy)
    assert isinstance(read, External)
    return list(read.groups)


def _written(bound: float) -> str:
    return {0.0: "leaf only", NO_BOUND: "no bound"}.get(bound, f"{bound:g} x")


def experiment(watch: Watcher, *, quick: bool = False) -> Figures:
    five = load_five()
    queries = draw_queries(five.policy, count=50 if quick else 1_000, selectivity=SELECTIVITY)
    releases: list[Figures] = []
    for way, u, others in SETTINGS[:1] if quick else SETTINGS:
        watch(f"coarse cells beside {others} publishers, u = {u}")
        releases += one_release(five, way, u, others, queries)
    watch("coarse cells in a series")
    return {"releases": releases, "series": [series(five, bound, 2 if quick else RELEASES) for bound in BOUNDS[:3]]}
