"""Baig's fifth phase, generalize: rows that start in a larger cell, one that covers other publishers' regions.

The external region in which a row lies rarely is one of our cells. Our smaller cell would cut it short: a reader of
both tables learns in which part of the region the row is. So a row may be published at the smallest node of the tree
that holds its leaf and all external regions it lies in (Baig, section 5; docs/design.md, "Other publishers"). Such an
inner node is a *coarse* cell: a cell like any other, of at least k rows, that lies over finer cells and is never split.

- Only rows never published with their quasi-identifiers start coarse: no region ever grows (docs/design.md, "Where the
  papers collide").
- A row that started coarse stays there until its quasi-identifiers change. In a leaf it would join people it was told
  apart from, and the two regions together would say which row came from above.
- The leaves below keep k + headroom rows of their own, and a coarse cell begins with as many.
- A coarse cell may lose at most `COARSE_LOSS` times as much as the leaf: docs/decisions/generalize.md has the figures.
- Which rows of a group start coarse follows from quasi-identifiers and a keyed draw alone: it says nothing of values.
- Tables with permanent values have no coarse cells: cliques are made for the cells that people have (docs/design.md,
  "Permanent values").

A coarse cell that falls under k is closed like any other, until newcomers below it fill it up again (`refill`).
"""

from dataclasses import dataclass

import numpy as np

from shoal.core.cells.tree import Rows, Tree
from shoal.core.groups.ledger import Ledger
from shoal.core.overlap.overlaps import ExternalIndex
from shoal.core.overlap.tuning import COARSE_LOSS
from shoal.core.people import People
from shoal.core.person import NOBODY, NOWHERE
from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed, Tags


@dataclass(frozen=True)
class ReleaseContext:
    """The release that is being made, as far as its cells depend on it."""

    people: People
    tree: Tree
    ledger: Ledger
    policy: Policy
    keyed: Keyed
    number: int

    @property
    def smallest(self) -> int:
        """Rows that a cell begins with."""
        return self.policy.k + self.policy.headroom

    def counts(self, rows: Rows) -> Rows:
        """How many of these rows each cell has."""
        return np.bincount(self.people.leaf[rows], minlength=self.tree.size)

    def newcomers(self, rows: Rows) -> Rows:
        """Those of these rows that were never published with the quasi-identifiers they have."""
        people = self.people
        rows = rows[people.coarse[rows] == NOWHERE]
        groups, at = np.unique(people.last_groups(rows), return_inverse=True)
        formed = [0 if group == NOBODY else self.ledger.record(group).formed for group in groups.tolist()]
        return np.asarray(rows[np.array(formed, dtype=np.int64)[at] < people.since[rows]])

    def draw(self, rows: Rows, purpose: str) -> Tags:
        return self.keyed.draw(self.people.tag[rows], self.number, purpose)


def generalize(context: ReleaseContext, index: ExternalIndex, rows: Rows, published: Rows) -> Rows:
    """Let rows that have a group beside the groups of `index` start in coarse cells; returns the cells that took any.

    `published` are all rows that will be published: they count for k. One step per level of the tree, and one per cell.
    """
    people, tree, rows = context.people, context.tree, context.newcomers(rows)
    leaf, counts = people.leaf[rows], context.counts(published)
    cover = tree.smallest_over(leaf, *index.hulls(people.columns, rows))
    wanted = np.flatnonzero((cover != leaf) & (tree.losses(cover) <= COARSE_LOSS * tree.losses(leaf)))
    wanted = wanted[np.argsort(cover[wanted], kind="stable")]
    nodes, begins = np.unique(cover[wanted], return_index=True)
    wanting = dict(zip(nodes.tolist(), np.split(wanted, begins)[1:], strict=True))
    spare, draw = np.maximum(0, counts - context.smallest), context.draw(rows, "coarse")
    opened = []
    for node in tree.deepest_first(nodes):
        taken = _spared(wanting[node], leaf, spare, draw)
        if len(taken) >= (1 if counts[node] else context.smallest):
            np.subtract.at(spare, leaf[taken], 1)
            people.start(rows[taken], node)
            opened.append(node)
    return np.array(opened, dtype=np.int64)


def refill(context: ReleaseContext, present: Rows) -> None:
    """Bring newcomers from the leaves below to coarse cells under k, where there are enough of them to reach k.

    A leaf that is closed itself gives all its newcomers, any other leaf its rows beyond k + headroom.
    """
    people, tree, k = context.people, context.tree, context.policy.k
    is_coarse = people.coarse != NOWHERE
    if not is_coarse.any():
        return
    coarse = np.unique(people.leaf[present[is_coarse[present]]])
    counts = context.counts(present)
    rows = context.newcomers(present[people.group[present] == NOBODY])
    leaf, draw = people.leaf[rows], context.draw(rows, "refill")
    spare = np.where(counts < k, counts, np.maximum(0, counts - context.smallest))
    for node in tree.deepest_first(coarse[counts[coarse] < k]):
        below = np.flatnonzero((people.coarse[rows] == NOWHERE) & tree.is_inside(node, people.columns, rows))
        taken = _spared(below, leaf, spare, draw)
        if len(taken) >= k - counts[node]:
            taken = taken[np.argsort(draw[taken], kind="stable")][: context.smallest - counts[node]]
            np.subtract.at(spare, leaf[taken], 1)
            people.start(rows[taken], node)


def _spared(positions: Rows, leaf: Rows, spare: Rows, draw: Tags) -> Rows:
    """Of these positions, as many in each leaf as the leaf can spare, the lowest draws first."""
    order = positions[np.lexsort((draw[positions], leaf[positions]))]
    begins = np.flatnonzero(np.diff(leaf[order], prepend=NOWHERE))
    rank = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
    found: Rows = order[rank < spare[leaf[order]]]
    return found
