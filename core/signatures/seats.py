"""Rounds newcomer by newcomer, where what a person has already decides who may be in one.

Counts alone do not say whether a round can be filled: a signature must hold nothing that its newcomers shun. Here a
signature is weighed by the newcomers that fit it. The most frequent value that is left is served first, so that no
value becomes too frequent, by the signature in use that most rounds fit, or else by a new one of the next most
frequent values that fit each other; half of the rounds that fit are made at a time.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.signatures.newcomers import UNDECIDED, Newcomers
from shoal.core.signatures.signature import Signatures
from shoal.core.signatures.tuning import SIGNATURES_WEIGHED

UNLIMITED: Final = 1 << 40


def seat(newcomers: Newcomers, left: Rows, known: Signatures, usable: Rows, m: int, found: Rows) -> None:
    """Make rounds of the newcomers in `left` that are undecided, of signatures in `usable` and of new ones."""
    waiting = _Waiting(newcomers, left[found[left] == UNDECIDED])
    usable = known.within(usable, np.flatnonzero(waiting.counts))  # the others can make no round
    holding, listed = known.holding(usable), set(usable.tolist())
    nowhere = np.zeros(0, dtype=np.int64)
    asked = waiting.counts.copy()
    while asked.any():
        value = int(asked.argmax())
        signature = waiting.best_of(known, holding.get(value, nowhere))
        if signature is None or waiting.affordable(signature, m) < 1:
            signature = waiting.best_new(value, m)
        if signature is None:
            asked[value] = 0
            continue
        number = known.number(signature)
        if number not in listed:
            listed.add(number)
            for member in signature:
                holding[member] = np.append(holding.get(member, nowhere), number)
        found[waiting.take(signature, waiting.affordable(signature, m))] = number
        asked = np.minimum(asked, waiting.counts)


class _Waiting:
    """Newcomers without a signature, and how many rounds of a signature they could make.

    Layout: by value, its newcomers; and by value and value shunned, those of them who shun it. These sets are small, so
    it is quick to count who fits a signature.
    """

    def __init__(self, newcomers: Newcomers, undecided: Rows) -> None:
        self._shunned, self._settle = newcomers.shunned, newcomers.settle
        self._siblings = newcomers.siblings
        self._value = dict(zip(undecided.tolist(), newcomers.value[undecided].tolist(), strict=True))
        self._draw = dict(zip(undecided.tolist(), newcomers.draw[undecided].tolist(), strict=True))
        self._by_value: dict[int, list[int]] = {}
        self._shunning: dict[int, dict[int, set[int]]] = {}
        for position, value in self._value.items():
            self._by_value.setdefault(value, []).append(position)
            self._note_shunned(position)
        self._unsorted = set(self._by_value)
        self.counts = np.bincount(newcomers.value[undecided], minlength=1)

    def _note_shunned(self, position: int) -> None:
        shunning = self._shunning.setdefault(self._value[position], {})
        for shunned in self._shunned.get(position, ()):
            shunning.setdefault(shunned, set()).add(position)

    def _waiting_for(self, value: int) -> list[int]:
        """The newcomers of a value, those that shun most first, as they fit nowhere else, then by draw."""
        mine = self._by_value[value]
        if value in self._unsorted:
            self._unsorted.remove(value)
            mine.sort(key=lambda one: (-len(self._shunned.get(one, ())), self._draw[one]))
        return mine

    def _unfit(self, value: int, signature: Sequence[int]) -> set[int]:
        """The newcomers of this value who shun something in the signature."""
        shunning = self._shunning.get(value, {})
        return set().union(*[shunning[member] for member in signature if member in shunning])

    def _rounds(self, signature: Sequence[int]) -> int:
        """How many rounds of a signature the newcomers that fit it make."""
        least = UNLIMITED
        for value in signature:
            fitting = len(self._by_value.get(value, ())) - len(self._unfit(value, signature))
            if not fitting:
                return 0
            least = min(least, fitting)
        return least

    def _has_guest(self, value: int, signature: Sequence[int]) -> bool:
        """Whether a newcomer of this value fits; once they are sorted, one that shuns nothing is the last."""
        mine = self._by_value[value]
        return bool(mine) and (mine[-1] not in self._shunned or len(mine) > len(self._unfit(value, signature)))

    def best_of(self, known: Signatures, numbers: Rows) -> tuple[int, ...] | None:
        """The signature that most rounds fit, of those for which there are most newcomers; None if none fits."""
        if not len(numbers):
            return None
        at_most = np.append(self.counts, UNLIMITED)[known.members[numbers]].min(axis=1)  # the last one is no value
        best, most = None, 0
        for at in np.lexsort((numbers, -at_most))[:SIGNATURES_WEIGHED].tolist():
            if at_most[at] <= most:
                break
            signature = known.sets[numbers[at]]
            rounds = self._rounds(signature)
            if rounds > most:
                best, most = signature, rounds
        return best

    def best_new(self, value: int, m: int) -> tuple[int, ...] | None:
        """A signature of this value and the most frequent others with which a round fits."""
        others = np.flatnonzero(self.counts)
        members = [value]
        for other in others[np.lexsort((others, -self.counts[others]))].tolist():
            if len(members) == m:
                break
            wider = [*members, other]
            if other != value and all(self._has_guest(one, wider) for one in wider):
                members = wider
        return tuple(sorted(members)) if len(members) == m else None

    def affordable(self, signature: tuple[int, ...], m: int) -> int:
        """How many rounds of a signature leave no other value more than one in m of what is left then."""
        counts = self.counts.copy()
        rounds = -(-int(counts.sum()) // m)
        counts[list(signature)] = 0
        return rounds - int(counts.max())

    def take(self, signature: tuple[int, ...], most: int) -> list[int]:
        """Half of the rounds of a signature, but at most so many, and at least one."""
        half = max(1, min((self._rounds(signature) + 1) // 2, most))
        seated: list[int] = []
        for value in signature:
            mine, unfit = self._waiting_for(value), self._unfit(value, signature)
            first = dict.fromkeys(islice((one for one in mine if one not in unfit), half))
            self._by_value[value] = [one for one in mine if one not in first]
            self.counts[value] -= half
            seated += first
        for one in seated:
            self._leave(one, signature)
        self._note_siblings(seated)
        return seated

    def _leave(self, position: int, signature: tuple[int, ...]) -> None:
        value = self._value.pop(position)
        for shunned in self._shunned.get(position, ()):
            self._shunning[value][shunned].discard(position)
        self._settle(position, signature)

    def _note_siblings(self, seated: Sequence[int]) -> None:
        """The siblings of these shun more now."""
        siblings = [one for position in seated for one in self._siblings.get(position, ()) if one in self._value]
        for sibling in siblings:
            self._note_shunned(sibling)
        self._unsorted.update([self._value[sibling] for sibling in siblings])
