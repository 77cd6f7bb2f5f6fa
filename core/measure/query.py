"""Random COUNT queries: how far the answers of a release are from the truth.

A query counts the values that people hold, `COUNT(*) WHERE A1 between … AND … AND sensitive between …`, with ranges of
one to all of the attributes, drawn at random, and of the sensitive attribute (Wong, section 8; Baig, section 5;
Xiao-Tao, section 5.2). Someone with three values counts up to three times, as in the table of reactions that Wong
queries. Labels are ordered as in their hierarchy, so that a range is a run of related ones. With q attributes each
range takes the share selectivity^(1/(q+1)) of its domain: every query would select the same share of uniform values.

The answer of a release assumes that rows lie uniformly in their region, that each value of a group is equally likely
to be any of its people's, that a generalized value is any of the leaves below it, and "*" any leaf at all, as often as
the release shows it elsewhere. Withheld people are in the truth and not in the answer. The error of a query is
|answer - truth| / max(truth, bound): the sanity bound, 1 % of all values held, keeps tiny truths from deciding the
mean. (Xiao-Tao asks only queries that select more.)

Everything random comes from the seed, so the same seed asks the same queries of every release.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.region import domain
from shoal.core.cells.tree import Column, Rows
from shoal.core.measure.release_reader import Published
from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed

QUERIES = 1000
SELECTIVITY = 0.05
SANITY = 0.01  # of all values held

Numbers: TypeAlias = NDArray[np.float64]


class Range(NamedTuple):
    """A condition: the half-open run of numbers or leaf codes it accepts."""

    low: float
    high: float

    def has(self, column: Column) -> NDArray[np.bool_]:
        return np.asarray((column >= self.low) & (column < self.high))

    def share(self, low: Column, high: Column) -> Numbers:
        """Which part of each of these runs is accepted."""
        common = np.minimum(high, self.high) - np.maximum(low, self.low)
        return np.asarray(np.clip(common / (high - low), 0.0, 1.0), dtype=np.float64)


class Query(NamedTuple):
    """Conditions on some attributes, by their position in the policy, and on the sensitive values."""

    conditions: tuple[tuple[int, Range], ...]
    sensitive: Range


class Truth(NamedTuple):
    """A true table: one column per attribute over people, and of each value held the holder and the leaf code."""

    columns: Sequence[Column]
    holders: Rows
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
    """A true table from everyone's quasi-identifiers and values, in codes."""
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
        holds = np.ones(len(truth.columns[0]), dtype=bool)
        for attribute, condition in query.conditions:
            holds &= condition.has(truth.columns[attribute])
        answers[position] = np.count_nonzero(holds[truth.holders] & query.sensitive.has(truth.leaves))
    return answers


def estimate(published: Published, queries: Sequence[Query]) -> Numbers:
    """What a reader of the release would answer; O(cells + groups) each."""
    answers = np.zeros(len(queries))
    if not published.rows:
        return answers
    hierarchy = published.policy.sensitive.hierarchy
    first, last = np.array(hierarchy.first)[published.shown_node], np.array(hierarchy.last)[published.shown_node]
    groups, suppressed = len(published.people), published.shown_node == 0
    seen = _seen(published, len(hierarchy.leaves))
    shown = np.bincount(published.shown_group, published.shown_count, groups)
    # counterfeits stand among the values shown, and are nobody's
    per_person = np.divide(shown - published.counterfeits, shown * published.people, where=shown > 0, out=shown * 0.0)
    for position, query in enumerate(queries):
        share = np.ones(len(published.cell_names))
        for attribute, condition in query.conditions:
            share *= condition.share(published.low[attribute], published.high[attribute])
        rows = np.bincount(published.entry_group, published.entry_rows * share[published.entry_cell], groups)
        anything = float(seen[query.sensitive.has(np.arange(len(seen)))].sum())
        accepted = np.where(suppressed, anything, query.sensitive.share(first, last)) * published.shown_count
        values = np.bincount(published.shown_group, accepted, groups)
        answers[position] = float(rows @ (values * per_person))
    return answers


def _seen(published: Published, leaves: int) -> Numbers:
    """How often a release shows each leaf, in shares; all alike if it shows none."""
    first = np.array(published.policy.sensitive.hierarchy.first)[published.shown_node]
    is_leaf = np.array(published.policy.sensitive.hierarchy.last)[published.shown_node] - first == 1
    counts = np.bincount(first[is_leaf], published.shown_count[is_leaf], leaves)
    return np.asarray(counts / counts.sum() if counts.any() else np.full(leaves, 1 / leaves))


def query_error(answers: Numbers, truths: Numbers, values: int, sanity: float = SANITY) -> QueryError:
    """The relative errors of a workload against the truth, of which there are `values` values held."""
    errors = np.abs(answers - truths) / np.maximum(truths, max(1.0, sanity * values))
    mean, median, most = float(errors.mean()), float(np.median(errors)), float(np.quantile(errors, 0.9))
    return QueryError(len(errors), mean, median, most)


def _draw_query(policy: Policy, keyed: Keyed, number: int, selectivity: float) -> Query:
    count = len(policy.attributes)
    width = 1 + int(_uniform(keyed, number, "width") * count)
    order = np.argsort(keyed.draw(np.arange(count, dtype=np.uint64), number, "attributes"), kind="stable")
    share = selectivity ** (1 / (width + 1))
    conditions = []
    for position in np.sort(order[:width]).tolist():
        attribute = policy.attributes[position]
        low, high = domain(attribute)
        at = _uniform(keyed, number, f"attribute {attribute.name}")
        conditions.append((position, _range(low, high, share, at, is_float=attribute.kind == "float")))
    leaves = len(policy.sensitive.hierarchy.leaves)
    return Query(tuple(conditions), _range(0, leaves, share, _uniform(keyed, number, "sensitive"), is_float=False))


def _range(low: float, high: float, share: float, at: float, *, is_float: bool) -> Range:
    """The range of this share of a domain that begins at `at` (0 to 1) of all the places where it fits."""
    if is_float:
        begin = low + at * (high - low) * (1 - share)
        end = begin + (high - low) * share
        return Range(begin, end if end < high else float(np.nextafter(high, np.inf)))
    values = max(1, round((high - low) * share))
    begin = low + int(at * (high - low - values + 1))
    return Range(begin, begin + values)


def _uniform(keyed: Keyed, number: int, purpose: str) -> float:
    """A number in [0, 1)."""
    return int(keyed.draw(np.zeros(1, dtype=np.uint64), number, purpose)[0] >> np.uint64(11)) / 2**53
