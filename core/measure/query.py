"""Random COUNT queries: how far the answers of a release are from the truth.

A query counts people's values, `COUNT(*) WHERE A1 between … AND … AND sensitive between …`, with ranges of one to all
of the attributes, drawn at random, and of the sensitive attribute (Wong, section 8; Baig, section 5; Xiao-Tao, section
5.2). A person with three values counts up to three times, as in the table of reactions that Wong queries. Labels are
ordered as in their hierarchy, so that a range is a run of related labels. With q attributes each range takes the share
selectivity^(1/(q+1)) of its domain: every query would select the same share of uniform values.

The answer of a release assumes that rows lie in their region as all regions together suggest (see `density.py`), that
each value of a group is equally likely to belong to each of its rows, that a generalized value is any of the leaves
below it, and "*" any leaf at all, as often as the release shows the leaf elsewhere. Withheld people are in the truth
and not in the answer. The error of a query is |answer - truth| / max(truth, bound). The sanity bound, 1 % of all true
values, keeps tiny truths from deciding the mean. (Xiao-Tao asks only queries that select more.)

Everything random comes from the seed, so that one seed asks the same queries of every release.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.region import domain
from shoal.core.cells.tree import Column, Rows
from shoal.core.measure.release_reader import ReleaseColumns
from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed

QUERIES = 1000  # by default: more queries take longer, fewer vary more
SELECTIVITY = 0.05  # the share that a query selects of uniform values
SANITY = 0.01  # of all true values

Numbers: TypeAlias = NDArray[np.float64]


class Range(NamedTuple):
    """A condition: the half-open run of numbers or leaf codes it accepts."""

    low: float
    high: float

    def has(self, column: Column) -> NDArray[np.bool_]:
        return np.asarray((column >= self.low) & (column < self.high))

    def share(self, low: Column, high: Column) -> Numbers:
        """The share of each of these runs that is accepted."""
        common = np.minimum(high, self.high) - np.maximum(low, self.low)
        return np.asarray(np.clip(common / (high - low), 0.0, 1.0), dtype=np.float64)


class Query(NamedTuple):
    """Conditions on some attributes, by their position in the policy, and on the sensitive values."""

    conditions: tuple[tuple[int, Range], ...]
    sensitive: Range


class Truth(NamedTuple):
    """A true table: one column per attribute over people, and of each value its person and leaf code."""

    columns: Sequence[Column]
    people: Rows
    leaves: Rows


class QueryError(NamedTuple):
    """Relative errors of a workload: mean (as Wong reports), median (as Baig does) and the 90th percentile."""

    queries: int
    mean: float
    median: float
    most: float


def draw_queries(
    policy: Policy, seed: str = "queries", count: int = QUERIES, selectivity: float = SELECTIVITY
) -> tuple[Query, ...]:
    """A workload; the same one for the same policy and seed."""
    keyed = Keyed(seed.encode(), policy.table)
    return tuple(_draw_query(policy, keyed, number, selectivity) for number in range(count))


def truth_of(policy: Policy, records: Iterable[tuple[Sequence[int | float], Sequence[int]]]) -> Truth:
    """A true table from the quasi-identifiers and values of all people, in codes."""
    pairs = list(records)
    dtypes = [np.float64 if attribute.kind == "float" else np.int64 for attribute in policy.attributes]
    columns = [np.array([qid[position] for qid, _ in pairs], dtype=dtype) for position, dtype in enumerate(dtypes)]
    sizes = np.array([len(values) for _, values in pairs], dtype=np.int64)
    leaves = np.array([leaf for _, values in pairs for leaf in values], dtype=np.int64)
    return Truth(columns, np.repeat(np.arange(len(pairs)), sizes), leaves)


def count_true(truth: Truth, queries: Sequence[Query]) -> Numbers:
    """The exact answer of each query; O(people) each."""
    answers = np.zeros(len(queries))
    for position, query in enumerate(queries):
        is_selected = np.ones(len(truth.columns[0]), dtype=bool)
        for attribute, condition in query.conditions:
            is_selected &= condition.has(truth.columns[attribute])
        answers[position] = np.count_nonzero(is_selected[truth.people] & query.sensitive.has(truth.leaves))
    return answers


def estimate(release: ReleaseColumns, queries: Sequence[Query]) -> Numbers:
    """What a reader of the release would answer; O(cells + groups) each."""
    answers = np.zeros(len(queries))
    if not release.rows:
        return answers
    hierarchy = release.policy.sensitive.hierarchy
    first, last = np.array(hierarchy.first)[release.shown_node], np.array(hierarchy.last)[release.shown_node]
    groups, suppressed = len(release.group_rows), release.shown_node == 0
    seen = _seen(release, len(hierarchy.leaves))
    shown = np.bincount(release.shown_group, release.shown_count, groups)
    # spare values are among those shown and belong to no row
    per_row = np.divide(shown - release.spare, shown * release.group_rows, where=shown > 0, out=shown * 0.0)
    for position, query in enumerate(queries):
        share = np.ones(len(release.cell_names))
        for attribute, condition in query.conditions:
            share *= share_inside(release, attribute, condition)
        rows = np.bincount(release.cell_rows_group, release.cell_rows_count * share[release.cell_rows_cell], groups)
        anything = float(seen[query.sensitive.has(np.arange(len(seen)))].sum())
        accepted = np.where(suppressed, anything, query.sensitive.share(first, last)) * release.shown_count
        values = np.bincount(release.shown_group, accepted, groups)
        answers[position] = float(rows @ (values * per_row))
    return answers


def share_inside(release: ReleaseColumns, attribute: int, condition: Range) -> Numbers:
    """By cell, the share of its people who are likely to meet a condition on an attribute."""
    return release.spread[attribute].share(release.low[attribute], release.high[attribute], condition)


def _seen(release: ReleaseColumns, leaves: int) -> Numbers:
    """How often a release shows each leaf, in shares; equal shares if it shows none."""
    first = np.array(release.policy.sensitive.hierarchy.first)[release.shown_node]
    is_leaf = np.array(release.policy.sensitive.hierarchy.last)[release.shown_node] - first == 1
    counts = np.bincount(first[is_leaf], release.shown_count[is_leaf], leaves)
    return np.asarray(counts / counts.sum() if counts.any() else np.full(leaves, 1 / leaves))


def query_error(answers: Numbers, truths: Numbers, values: int, sanity: float = SANITY) -> QueryError:
    """The relative errors of a workload against a truth of so many values."""
    errors = np.abs(answers - truths) / np.maximum(truths, max(1.0, sanity * values))
    mean, median, most = float(errors.mean()), float(np.median(errors)), float(np.quantile(errors, 0.9))
    return QueryError(len(errors), mean, median, most)


def _draw_query(policy: Policy, keyed: Keyed, number: int, selectivity: float) -> Query:
    count = len(policy.attributes)
    width = 1 + int(uniform(keyed, number, "width") * count)
    order = np.argsort(keyed.draw(np.arange(count, dtype=np.uint64), number, "attributes"), kind="stable")
    share = selectivity ** (1 / (width + 1))
    conditions = []
    for position in np.sort(order[:width]).tolist():
        attribute = policy.attributes[position]
        low, high = domain(attribute)
        at = uniform(keyed, number, f"attribute {attribute.name}")
        conditions.append((position, random_range(low, high, share, at, is_float=attribute.kind == "float")))
    leaves = len(policy.sensitive.hierarchy.leaves)
    return Query(tuple(conditions), random_range(0, leaves, share, uniform(keyed, number, "sensitive"), is_float=False))


def random_range(low: float, high: float, share: float, at: float, *, is_float: bool) -> Range:
    """A range of this share of a domain; `at` (0 to 1) says which of all the places where it fits."""
    if is_float:
        begin = low + at * (high - low) * (1 - share)
        end = begin + (high - low) * share
        return Range(begin, end if end < high else float(np.nextafter(high, np.inf)))
    values = max(1, round((high - low) * share))
    begin = low + int(at * (high - low - values + 1))
    return Range(begin, begin + values)


def uniform(keyed: Keyed, number: int, purpose: str) -> float:
    """A number in [0, 1)."""
    return int(keyed.draw(np.zeros(1, dtype=np.uint64), number, purpose)[0] >> np.uint64(11)) / 2**53
