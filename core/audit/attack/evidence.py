"""What a group says about one row, given the group that the row was in before.

Take n values drawn from the overall distribution π and published as a multiset. Of somebody among their owners it says:
value v with probability count(v)/n, exactly. So its weight for v, relative to π, is count(v) / (n π(v)); that is what a
first group weighs. Later groups may hold people who were in the same group before. Their values are no news, if they
have kept them, and counting them again would make an adversary sure of nonsense. So the weight of v compares two
stories: of the v that the group shows, one is this row's, or all are others'. Others who came along, C - 1 of n' - 1,
each kept their value with probability p; the a times that the group before showed v thin out to a binomial. The rest
of the group, F = n - 1 - p (C - 1) values, are new and show v as a Poisson variable with mean F π(v):

    weight(v) = P[Bin(a - 1, t) + Poisson(F π(v)) = b - 1] / P[Bin(a, t) + Poisson(F π(v)) = b],  t = p (C - 1)/(n' - 1)

where b is how often the group shows v. Alone among strangers (C = 1) this is count(v) / (n π(v)) but for a constant,
exactly; among the same people and the same values it is 1 for all. In between it is an approximation, for it lets each
value vary by itself though their sum is fixed. F is at least 1/2: somebody may have changed all the same.

An inner node weighs count / (n π(its leaves)) for every leaf below it, and "*" count / n for every value: nothing.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.audit.attack.trails import Trails

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_TINY = 1e-12


class Lines(NamedTuple):
    """A line for each pair of groups and each leaf that the second shows, itself or by a node above it."""

    pair: Ints  # by line: the place of the pair among those asked for
    leaf: Ints
    now: Ints  # how often the leaf itself is shown; 0 for a leaf below a node
    before: Ints
    node: Floats  # what a node above it weighs


class Evidence:
    """The groups of a series in flat arrays, and the weights of any of its pairs."""

    def __init__(self, trails: Trails) -> None:
        contents = trails.contents
        self._leaves = trails.nothing + 1
        self.prior = _overall_distribution(trails)
        self._previous, self._group, self._common = (
            np.array(column, dtype=np.int64) for column in (trails.previous, trails.group, trails.common)
        )
        self._total = np.array([content.total for content in contents], dtype=np.int64)
        self._stars = np.array([content.stars for content in contents], dtype=np.int64)
        self._start, keys, self._count = _flatten([(content.leaves, content.counts) for content in contents])
        self._key = keys + np.repeat(np.arange(len(contents)) * self._leaves, np.diff(self._start))
        raised = []
        for content in contents:
            shares = [(leaf, token, count) for token, count in content.nodes for leaf in token]
            weights = [count / content.total / max(self.prior[list(token)].sum(), _TINY) for _, token, count in shares]
            raised.append(([leaf for leaf, _, _ in shares], weights))
        self._node_start, self._node_leaf, self._node_weight = _flatten(raised)

    def widths(self) -> Ints:
        """By pair: how many lines it has."""
        lines = np.diff(self._start) + np.diff(self._node_start)
        return np.asarray(lines[self._group])

    def stars(self, pairs: Ints) -> Floats:
        """What each of these pairs says of every value, shown or not."""
        group = self._group[pairs]
        return np.asarray(self._stars[group] / np.maximum(self._total[group], 1))

    def lines(self, pairs: Ints) -> Lines:
        """The lines of these pairs, in their order."""
        group, previous = self._group[pairs], self._previous[pairs]
        owner, at = spans(self._start[group], self._start[group + 1])
        leaf = self._key[at] % self._leaves
        wanted = previous[owner] * self._leaves + leaf
        place = np.minimum(np.searchsorted(self._key, wanted), len(self._key) - 1)
        before = np.where(self._key[place] == wanted, self._count[place], 0).astype(np.int64)
        below, below_at = spans(self._node_start[group], self._node_start[group + 1])
        none = np.zeros(len(below), dtype=np.int64)
        return Lines(
            np.concatenate([owner, below]),
            np.concatenate([leaf, self._node_leaf[below_at]]),
            np.concatenate([self._count[at].astype(np.int64), none]),
            np.concatenate([before, none]),
            np.concatenate([np.zeros(len(owner)), self._node_weight[below_at]]),
        )

    def weights(self, pairs: Ints, lines: Lines, stay: float) -> Floats:
        """The weight of each line, "*" aside."""
        group, previous = self._group[pairs], self._previous[pairs]
        total, old = self._total[group], np.where(previous < 0, 1, self._total[previous])
        company = np.where(previous < 0, 0, np.minimum(np.minimum(self._common[pairs], old), total) - 1)
        along = (stay * company / np.maximum(old - 1, 1))[lines.pair]
        new = np.maximum(total - 1 - stay * company, 0.5)[lines.pair]
        expected = np.maximum(new * self.prior[lines.leaf], _TINY)
        found = lines.now / expected
        told = np.flatnonzero((lines.before > 0) & (along > 0) & (lines.now > 0))
        before, now = lines.before[told], lines.now[told]
        mine = _log_chance(before - 1, now - 1, along[told], expected[told])
        found[told] = np.exp(mine - _log_chance(before, now, along[told], expected[told]))
        return np.asarray(found * (np.maximum(total - 1, 0.5) / np.maximum(total, 1))[lines.pair] + lines.node)


def spans(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """All numbers of the ranges [first, last), one range after the other, and for each the range it is from."""
    length = last - first
    owner = np.repeat(np.arange(len(length)), length)
    offset = np.cumsum(length) - length
    return owner, np.arange(len(owner)) - offset[owner] + first[owner]


def _overall_distribution(trails: Trails) -> Floats:
    """The share of each leaf in everything published, and of "nothing"; nodes are spread evenly, "*" left out."""
    found = np.zeros(trails.nothing + 1)
    for token, count in trails.shown.items():
        if token:
            found[list(token)] += count / len(token)
    return np.asarray(found / max(found.sum(), _TINY))


def _flatten(columns: list[tuple[Any, Any]]) -> tuple[Ints, Ints, Any]:
    """Lists of leaves, each with what belongs to them, end to end; and where each list starts."""
    start = np.concatenate([[0], np.cumsum([len(leaves) for leaves, _ in columns], dtype=np.int64)])
    leaf = np.array([leaf for leaves, _ in columns for leaf in leaves], dtype=np.int64)
    return start, leaf, np.array([entry for _, entries in columns for entry in entries])


def _log_chance(known: Ints, shown: Ints, kept: Floats, expected: Floats) -> Floats:
    """log P[Bin(known, kept) + Poisson(expected) = shown], but for the factor exp(-expected), which cancels."""
    most = int(max(known.max(initial=0), shown.max(initial=0)))
    factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])
    log_kept, log_gone = np.log(np.maximum(kept, _TINY)), np.log(np.maximum(1 - kept, _TINY))
    log_new = np.log(expected)
    found = np.full(len(known), -np.inf)
    limit = np.minimum(known, shown)
    for stayed in range(int(limit.max(initial=-1)) + 1):
        at = np.flatnonzero(limit >= stayed)
        a, rest = known[at], shown[at] - stayed
        term = factorial[a] - factorial[stayed] - factorial[a - stayed] - factorial[rest]
        term += stayed * log_kept[at] + (a - stayed) * log_gone[at] + rest * log_new[at]
        found[at] = np.logaddexp(found[at], term)
    return found
