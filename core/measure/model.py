"""Who has what: a model of people's values given where they are, fitted to the groups of a release alone.

Groups whose rows lie in different places show different values, so a release says more than each of its groups does.
The model is naive Bayes: somebody's attributes are independent of each other, given their value. It is fitted by
expectation maximization. Each round guesses, with the model so far, how the values of each group lie over its rows
(entries.py), and learns from all guesses together how the people with a value are spread over each attribute. The
spread of a value is drawn towards the spread of what stands above it in the hierarchy, as if `PRIOR` people more had
it, and `DOUBT` of those who do.

Anyone can do this with a release and its policy, an adversary, too (Kifer 2009): it uses nothing else.

Strata of the tree and several releases together were tried and left out (docs/experiments.md, "What a release
answers").
"""

from typing import Final, NamedTuple

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.measure.bins import Bins, bins_of
from shoal.core.measure.entries import NOTHING, Entries, Numbers, Sides, add_up, entries_of
from shoal.core.measure.release_reader import ReleaseColumns

PRIOR: Final = 20.0  # people
DOUBT: Final = 0.1  # of those who have it: attributes are not independent of each other
ROUNDS: Final = 10  # more follow chance
SCALINGS: Final = 3  # in each round; the next round goes on from there
ENOUGH: Final = 1_000_000  # entries to learn from: more take longer and teach no more
LEAST: Final = 1e-9


class Model(NamedTuple):
    """`counts` says how many people have each leaf that occurs. `likely` says by attribute, run and leaf how likely
    somebody with the leaf lies in the run; the last leaf is nobody's in particular, and stands for all.
    """

    bins: tuple[Bins, ...]
    counts: Numbers
    likely: tuple[Numbers, ...]

    def weigh(self, cell: Rows, leaf: Rows) -> Numbers:
        """How likely these leaves are in these cells, times a factor of each cell."""
        weight = np.r_[self.counts, self.counts.sum()][leaf]
        for bins, likely in zip(self.bins, self.likely, strict=True):
            weight *= likely.ravel()[bins.of[cell] * likely.shape[1] + leaf % likely.shape[1]]
        return np.asarray(np.maximum(weight, 1e-300))


def fit(release: ReleaseColumns, sides: Sides) -> Model:
    """The model of a release, which must have rows. O(entries) for each round, `ENOUGH` at most."""
    bins = tuple(bins_of(release, attribute) for attribute in range(len(release.low)))
    entries = entries_of(sides, _sample(sides))
    levels = _levels(release, sides.leaves)
    is_known = entries.leaf != NOTHING
    cell, leaf = entries.cell[is_known], entries.leaf[is_known]
    width = len(sides.leaves)
    spreads = [np.repeat(one.spread[:, None], width, axis=1) for one in bins]
    at = [one.of[cell] * width + leaf for one in bins]
    counts = _first_counts(entries, width)
    for _ in range(ROUNDS):
        model = Model(bins, counts, tuple(map(_likely, bins, spreads)))
        found = entries.fit(model.weigh(entries.cell, entries.leaf), SCALINGS)[is_known]
        counts = add_up(leaf, found, width) + LEAST
        for position, one in enumerate(bins):
            runs = len(one.is_in)
            there = add_up(at[position], found, runs * width).reshape(runs, width)
            # of those in a run, as many lie in each bin as people with the value are spread so far (Turnbull)
            seen = spreads[position] * (one.is_in.T @ (there / np.maximum(one.is_in @ spreads[position], LEAST)))
            spreads[position] = _shrink(seen, levels)
    return Model(bins, counts, tuple(map(_likely, bins, spreads)))


def _sample(sides: Sides) -> Rows:
    """All groups, or, of a large release, as many as are enough, evenly chosen."""
    total = int(sides.sizes.sum())
    return np.arange(0, len(sides.sizes), max(1, -(-total // ENOUGH)))


def _first_counts(entries: Entries, width: int) -> Numbers:
    """How often each leaf is shown; a raised value is any of the leaves below it."""
    each = entries.value_count / np.maximum(np.bincount(entries.value, minlength=len(entries.value_count)), 1)
    is_known = entries.leaf != NOTHING
    return add_up(entries.leaf[is_known], each[entries.value[is_known]], width) + LEAST


def _likely(bins: Bins, spread: Numbers) -> Numbers:
    return np.asarray(bins.is_in @ np.c_[spread, bins.spread])


def _levels(release: ReleaseColumns, leaves: Rows) -> list[Rows]:
    """For each level of the hierarchy below the root, from the top, which node each leaf stands under, numbered."""
    hierarchy = release.policy.sensitive.hierarchy
    parent = np.array(hierarchy.parent)
    above = parent[np.array(hierarchy.leaf_node)[leaves]]
    levels = []
    while above.any():
        levels.append(np.unique(above, return_inverse=True)[1].reshape(-1))
        above = np.where(above > 0, parent[above], 0)
    return levels[::-1]


def _shrink(seen: Numbers, levels: list[Rows]) -> Numbers:
    """The spread of each leaf: what was seen of it, drawn towards the spread of what stands above it."""
    everyone = seen.sum(axis=1, keepdims=True) + LEAST
    prior = np.repeat(everyone / everyone.sum(), seen.shape[1], axis=1)
    for level in levels:
        together = np.zeros((level.max() + 1, len(seen)))
        np.add.at(together, level, seen.T)
        together = together.T[:, level]
        prior = _draw(together, prior)
    return _draw(seen, prior)


def _draw(seen: Numbers, prior: Numbers) -> Numbers:
    people = seen.sum(axis=0)
    weight = PRIOR + DOUBT * people
    return np.asarray((seen + weight * prior) / (people + weight))
