"""The surest belief about everybody, from their trails: some people at a time, so that arrays stay small.

Values are numbered anew for each person: those that any of the person's groups shows, and one more for all others. The
others differ in nothing that was published, so taking them together is exact.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.audit.attack.evidence import Evidence, Floats, Ints, spans
from shoal.core.audit.attack.markov import posterior
from shoal.core.audit.attack.trails import Trails

_CELLS = 1 << 19  # of the arrays of one batch

Bools = NDArray[np.bool_]


class Belief(NamedTuple):
    """The surest belief about one person: a value at a release, and whether it is true."""

    person: str
    release: int
    leaf: int
    belief: float
    is_right: bool


class Believer:
    """Everything that does not depend on how likely a value is to stay."""

    def __init__(self, trails: Trails, is_protected: Bools) -> None:
        self._trails, self._is_protected = trails, is_protected
        self._evidence = Evidence(trails)
        trail = np.array(trails.trail, dtype=np.int64)
        person = np.array(trails.person_of, dtype=np.int64)[trail] if len(trail) else trail
        self._order = np.lexsort((np.arange(len(trail)), trail, person))
        self._trail, self._person = trail[self._order], person[self._order]
        self._release, self._until, self._gap, self._pair, self._values = (
            np.array(column, dtype=np.int64)[self._order]
            for column in (trails.release, trails.until, trails.gap, trails.pair, trails.values)
        )
        plain = np.array([content.is_plain for content in trails.contents], dtype=bool)
        group = np.array(trails.group, dtype=np.int64)
        self._is_plain = plain[group[self._pair]] if len(trail) else plain[:0]
        self._names = list(trails.numbers)

    def beliefs(self, stays: Sequence[float]) -> Iterator[tuple[float, Belief]]:
        """The surest belief about everyone with something protected to be claimed, for each stay probability."""
        if not len(self._person):
            return
        first = np.flatnonzero(np.diff(self._person, prepend=-1))
        last = np.append(first[1:], len(self._person))
        steps = last - first
        is_many = np.add.reduceat(np.diff(self._trail, prepend=-1) != 0, first) > 1
        width = np.minimum(np.add.reduceat(self._evidence.widths()[self._pair], first), self._trails.nothing + 1) + 1
        cells = steps * width
        # People of like size together, so that little is padded; among those, people of one group.
        order = np.lexsort((self._pair[first], np.log2(cells).astype(np.int64), is_many))
        ends = np.searchsorted(np.cumsum(cells[order]), np.arange(_CELLS, cells.sum() + _CELLS, _CELLS))
        ends = np.append(ends, np.flatnonzero(np.diff(is_many[order])) + 1)
        for batch in np.split(order, np.unique(ends)):
            if len(batch):
                _, at = spans(first[batch], last[batch])
                yield from self._batch(at, bool(is_many[batch[0]]), stays)

    def _batch(self, at: Ints, is_many: bool, stays: Sequence[float]) -> Iterator[tuple[float, Belief]]:
        """People by their steps, which stand in the order of person, trail and release."""
        start = np.flatnonzero(np.diff(self._trail[at], prepend=-1))
        trail = np.cumsum(np.diff(self._trail[at], prepend=-1) != 0) - 1
        step = np.arange(len(at)) - start[trail]
        of_trail = self._person[at][start]
        person = np.cumsum(np.diff(of_trail, prepend=-1) != 0) - 1
        pairs, pair = np.unique(self._pair[at], return_inverse=True)
        lines = self._evidence.lines(pairs)
        by_pair = np.argsort(lines.pair, kind="stable")
        begin = np.searchsorted(lines.pair[by_pair], np.arange(len(pairs) + 1))
        owner, place = spans(begin[pair], begin[pair + 1])
        line = by_pair[place]
        leaves = self._trails.nothing + 2
        slots, slot = np.unique(person[trail[owner]] * leaves + lines.leaf[line], return_inverse=True)
        slot_person = slots // leaves
        offset = np.searchsorted(slot_person, np.arange(person[-1] + 2))
        column = np.arange(len(slots)) - offset[slot_person]
        width = int(np.diff(offset).max()) + 1  # the last for all others
        leaf = np.full((person[-1] + 1, width), leaves - 1, dtype=np.int64)
        leaf[slot_person, column] = slots % leaves
        prior = np.zeros(leaf.shape)
        prior[slot_person, column] = self._evidence.prior[slots % leaves]
        prior[:, -1] = np.maximum(1 - prior.sum(axis=1), 0)
        shape = int(step.max()) + 1, len(start)
        for stay in stays:
            weight = np.ones((*shape, width))
            weight[step, trail] = self._evidence.stars(pairs)[pair][:, None]
            told = self._evidence.weights(pairs, lines, stay)[line]
            np.add.at(weight, (step[owner], trail[owner], column[slot]), told)
            kept = np.ones(shape)
            kept[step, trail] = stay ** self._gap[at]
            belief = posterior(prior[person], weight, kept)
            belief *= self._is_protected[leaf][person]
            counted = np.zeros(shape)
            counted[step, trail] = np.where(self._is_plain[at], 0, self._values[at])
            belief *= counted[:, :, None]
            if is_many:
                yield from self._of_many(stay, at, trail, step, person, leaf, belief)
            else:
                yield from self._of_one(stay, at, step, trail, leaf, belief)

    def _of_one(
        self, stay: float, at: Ints, step: Ints, trail: Ints, leaf: Ints, belief: Floats
    ) -> Iterator[tuple[float, Belief]]:
        """People with one trail each."""
        steps, trails, width = belief.shape
        flat = belief.transpose(1, 0, 2).reshape(trails, steps * width)
        best = flat.argmax(axis=1)
        entry = np.full((trails, steps), -1, dtype=np.int64)
        entry[trail, step] = at
        for one, (cell, value) in enumerate(zip(best.tolist(), flat.max(axis=1).tolist(), strict=True)):
            if value > 0:
                yield stay, self._belief(int(entry[one, cell // width]), int(leaf[one, cell % width]), value)

    def _of_many(
        self, stay: float, at: Ints, trail: Ints, step: Ints, person: Ints, leaf: Ints, belief: Floats
    ) -> Iterator[tuple[float, Belief]]:
        """People with several trails: at each release the beliefs from all rows of a person are added up."""
        first = np.flatnonzero(np.diff(person, prepend=-1))
        best = np.zeros(len(first))
        where = np.full((len(first), 2), -1, dtype=np.int64)
        for release in np.unique(self._release[at]).tolist():
            now = np.flatnonzero((self._release[at] <= release) & (self._until[at] >= release))
            shown = np.zeros(belief.shape[1:])
            shown[trail[now]] = belief[step[now], trail[now]]
            added = np.minimum(np.add.reduceat(shown, first, axis=0), 1.0)
            surest = added.argmax(axis=1)
            value = added[np.arange(len(first)), surest]
            new = now[self._release[at[now]] == release]
            entry = np.full(len(first), -1, dtype=np.int64)
            entry[person[trail[new]]] = at[new]
            better = np.flatnonzero((value > best) & (entry >= 0))
            best[better] = value[better]
            where[better, 0], where[better, 1] = entry[better], surest[better]
        for one, (value, (entry_at, column)) in enumerate(zip(best.tolist(), where.tolist(), strict=True)):
            if value > 0:
                yield stay, self._belief(entry_at, int(leaf[one, column]), value)

    def _belief(self, entry: int, leaf: int, value: float) -> Belief:
        name, release = self._names[self._person[entry]], int(self._release[entry])
        held = self._trails.held[self._order[entry]]
        return Belief(name, release, leaf, min(value, 1.0), leaf in held)
