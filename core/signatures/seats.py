"""Rounds newcomer by newcomer, where what a person has already decides who may be in one.

Counts alone do not say whether a round can be filled: a signature must hold nothing that its newcomers shun. Here a
signature is weighed by the newcomers that fit it. The most frequent value that is left is served first, so that no
value becomes too frequent, by the signature in use that most rounds fit, or else by a new one of the next most
frequent values that fit each other; half of the rounds that fit are made at a time.
"""

from collections.abc import Sequence, Set
from typing import Final, NamedTuple

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.signatures.newcomers import UNDECIDED, Newcomers
from shoal.core.signatures.signature import Signatures
from shoal.core.signatures.tuning import SIGNATURES_WEIGHED

NOTHING: Final[Set[int]] = frozenset()
UNLIMITED: Final = 1 << 40


class _Table(NamedTuple):
    """A signature, the newcomers that fit it for each of its values, and how many rounds they make."""

    values: tuple[int, ...]
    guests: list[list[int]]
    rounds: int


def seat(newcomers: Newcomers, left: Rows, known: Signatures, usable: Rows, m: int, found: Rows) -> None:
    """Make rounds of the newcomers in `left` that are undecided, of signatures in `usable` and of new ones."""
    waiting = _Waiting(newcomers, left[found[left] == UNDECIDED])
    holding = {value: numbers.tolist() for value, numbers in known.holding(usable).items()}
    asked = waiting.counts.copy()
    while asked.any():
        value = int(asked.argmax())
        table = waiting.best_of(known, holding.get(value, [])) or waiting.best_new(value, m)
        if table is None:
            asked[value] = 0
            continue
        number = known.number(table.values)
        for member in table.values:
            if number not in holding.setdefault(member, []):
                holding[member].append(number)
        found[waiting.take(table)] = number
        asked = np.minimum(asked, waiting.counts)


class _Waiting:
    """Newcomers without a signature and what they shun, by value in the order of their draws."""

    def __init__(self, newcomers: Newcomers, undecided: Rows) -> None:
        self._newcomers = newcomers
        self._by_value: dict[int, dict[int, Set[int]]] = {}
        for position in undecided[np.argsort(newcomers.draw[undecided], kind="stable")].tolist():
            shunned: Set[int] = newcomers.shunned.get(position, NOTHING)
            self._by_value.setdefault(int(newcomers.value[position]), {})[position] = shunned
        self.counts = np.bincount(newcomers.value[undecided], minlength=1)

    def _weigh(self, values: tuple[int, ...]) -> _Table:
        is_free, nobody = frozenset(values).isdisjoint, dict[int, Set[int]]()
        waiting = (self._by_value.get(value, nobody) for value in values)
        guests = [[one for one, shunned in mine.items() if is_free(shunned)] for mine in waiting]
        return _Table(values, guests, min(map(len, guests)))

    def best_of(self, known: Signatures, numbers: Sequence[int]) -> _Table | None:
        """The signature that most rounds fit, of those for which there are most newcomers; None if none fits."""
        if not numbers:
            return None
        counts = np.append(np.pad(self.counts, (0, int(known.members.max()))), UNLIMITED)  # the last one is no value
        at_most = counts[known.members[numbers]].min(axis=1)
        best: _Table | None = None
        for at in np.lexsort((numbers, -at_most))[:SIGNATURES_WEIGHED].tolist():
            if at_most[at] <= (best.rounds if best else 0):
                break
            table = self._weigh(known.sets[numbers[at]])
            if table.rounds > (best.rounds if best else 0):
                best = table
        return best

    def best_new(self, value: int, m: int) -> _Table | None:
        """A signature of this value and the most frequent others with which a round fits."""
        others = np.flatnonzero(self.counts)
        members, table = [value], None
        for other in others[np.lexsort((others, -self.counts[others]))].tolist():
            if len(members) == m:
                break
            if other != value:
                wider = self._weigh(tuple(sorted([*members, other])))
                if wider.rounds:
                    members, table = [*members, other], wider
        return table if len(members) == m else None

    def take(self, table: _Table) -> list[int]:
        """Half of the rounds of a signature; newcomers that shun most come first, as they fit nowhere else."""
        seated: list[int] = []
        for value, guests in zip(table.values, table.guests, strict=True):
            mine = self._by_value[value]
            first = sorted(guests, key=lambda one: -len(mine[one]))[: (table.rounds + 1) // 2]
            self.counts[value] -= len(first)
            for one in first:
                del mine[one]
                self._newcomers.settle(one, table.values)
            seated += first
        return seated
