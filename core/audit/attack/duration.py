"""The duration attack: somebody who knows how long each value usually lasts. Reported, not promised.

Rules S1 to S5 hide a value among those of its signature, and how long it stays is seen (docs/design.md, "Values that
last"). Where one value of a signature lasts for years and another for a week, that tells them apart. The adversary here
knows how often every value ends, by its age, in this very table but for the person who is attacked; and who held
something from which release to which.

A *step* is a value from one release to the next: it stays, it ends, or its person leaves. P(step | value, age) is the
share of such steps among those of the value, drawn towards the share among all values; how much it is drawn is what
foretells each step best from all others. A row weighs each value of its signature with the product over its steps.
Within a group the weights are then scaled until every row has one value and every value its q rows: what is left is
what the adversary believes (Sinkhorn's scaling, which stands for counting the ways to arrange the group).

One claim per person: the surest value of a row of theirs, if it is over 1/l. Cost: rows times the size of signatures.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.audit.attack.persistence import SURE
from shoal.core.audit.attack.worlds import Token

STAY, END, LEAVE = range(3)
_AGES: Final = (1, 2, 4, 8, 16)  # an age is in the class of those that it reaches
_OLD: Final = len(_AGES) + 1  # the class of what was there in the first release already
_PULLS: Final = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
_ROUNDS: Final = 60  # of scaling
_MARGIN: Final = 1e-9

Floats = NDArray[np.float64]
Entry = tuple[str, int]  # a person and a leaf


class Lasted(NamedTuple):
    """People with a row under a signature, claims over the bound and over 0.9, and how many of them are right."""

    people: int
    over: int
    over_right: int
    sure: int
    sure_right: int

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


class _Span(NamedTuple):
    """A spell: its first and its last release, and how it ended; STAY if it has not."""

    first: int
    last: int
    end: int


class Duration:
    """Sees a lasting table release by release."""

    def __init__(self, leaves: int) -> None:
        self._leaves, self._number = leaves, 0
        self._since: dict[Entry, int] = {}
        self._spans: dict[Entry, list[_Span]] = defaultdict(list)
        self._rows: dict[str, dict[Entry, int]] = defaultdict(dict)  # by group: its rows, and since when it has them
        self._signatures: dict[str, tuple[int, ...]] = {}

    def see(
        self,
        groups: Iterable[tuple[str, Mapping[Token, int], Sequence[tuple[str, int | None]]]],
        held: Mapping[str, frozenset[int]],
    ) -> None:
        """Takes a release: the groups that show signatures, with the person and leaf of each row, and the truth."""
        self._number += 1
        for gone in [one for one in self._since if one[1] not in held.get(one[0], ())]:
            end = END if gone[0] in held else LEAVE
            self._spans[gone].append(_Span(self._since.pop(gone), self._number - 1, end))
        for person, values in held.items():
            for value in values:
                self._since.setdefault((person, value), self._number)
        for name, shown, rows in groups:
            self._signatures[name] = tuple(leaf for token in shown for leaf in token)
            for person, leaf in rows:
                if leaf is not None:
                    self._rows[name].setdefault((person, leaf), self._number)

    def result(self, l: float) -> Lasted:
        """What the adversary claims."""
        bound, spans = float(1 / Fraction(l)) + _MARGIN, self._all_spans()
        steps = np.zeros((self._leaves, _OLD + 1, 3))
        own: dict[str, dict[int, Floats]] = defaultdict(dict)  # by person and leaf
        for (person, leaf), mine in spans.items():
            counted = own[person][leaf] = sum((_steps(span) for span in mine), np.zeros((_OLD + 1, 3)))
            steps[leaf] += counted
        shares = _Shares(steps)
        surest: dict[str, tuple[float, bool]] = {}
        for name, rows in self._rows.items():
            leaves = self._signatures[name]
            weights = np.empty((len(rows), len(leaves)))
            for at, ((person, leaf), since) in enumerate(rows.items()):
                seen = sum((_steps(one) for one in spans[person, leaf] if one.last >= since), np.zeros((_OLD + 1, 3)))
                weights[at] = [(seen * shares.of(value, own[person].get(value))).sum() for value in leaves]
            beliefs = _scale(np.exp(weights - weights.max(axis=1, keepdims=True)))
            best = beliefs.argmax(axis=1)
            for at, (person, leaf) in enumerate(rows):
                claim = float(beliefs[at, best[at]]), leaves[best[at]] == leaf
                surest[person] = max(surest.get(person, claim), claim)
        over = [is_right for belief, is_right in surest.values() if belief > bound]
        sure = [is_right for belief, is_right in surest.values() if belief > SURE]
        return Lasted(len(surest), len(over), sum(over), len(sure), sum(sure))

    def _all_spans(self) -> Mapping[Entry, list[_Span]]:
        found = {entry: list(spans) for entry, spans in self._spans.items()}
        for entry, first in self._since.items():
            found.setdefault(entry, []).append(_Span(first, self._number, STAY))
        return found


class _Shares:
    """log P(step | value, age), from how many steps there were of each kind."""

    def __init__(self, steps: Floats) -> None:
        self._steps = steps
        everything = steps.sum(axis=0) + steps.sum(axis=(0, 1)) / max(1.0, steps.sum()) + 1e-6
        self._base = everything / everything.sum(axis=1, keepdims=True)
        self._pull = max(_PULLS, key=self._foretold)
        self._logs = self._log(steps)

    def _foretold(self, pull: float) -> float:
        """How well each step is foretold by all others: the logarithm of what they give it together."""
        others = np.maximum(self._steps - 1, 0) + pull * self._base
        total = np.maximum(self._steps.sum(axis=2, keepdims=True) - 1, 0) + pull
        return float((self._steps * np.log(others / total)).sum())

    def _log(self, steps: Floats) -> Floats:
        return np.asarray(np.log((steps + self._pull * self._base) / (steps.sum(axis=-1, keepdims=True) + self._pull)))

    def of(self, value: int, own: Floats | None) -> Floats:
        """Of one value by age and kind of step, without somebody's own steps."""
        return self._logs[value] if own is None else self._log(self._steps[value] - own)


def _steps(span: _Span) -> Floats:
    """How many steps of each kind a spell has, by class of age."""
    found = np.zeros((_OLD + 1, 3))
    stays = span.last - span.first
    if span.first == 1:
        found[_OLD, STAY] = stays
        last = _OLD
    else:
        edges = np.minimum(np.array((0, *_AGES, stays)), stays)
        found[:_OLD, STAY] = np.diff(edges)
        last = int(np.searchsorted(_AGES, stays, side="right"))
    if span.end != STAY:
        found[last, span.end] += 1
    return found


def _scale(weights: Floats) -> Floats:
    """Weights of rows and values, scaled until each row has one value and each value as many rows as the others."""
    rows, values = weights.shape
    found = np.maximum(weights, 1e-12)
    for _ in range(_ROUNDS):
        found = found * (rows / values / found.sum(axis=0, keepdims=True))
        found = found / found.sum(axis=1, keepdims=True)
    return found
