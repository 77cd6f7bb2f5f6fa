"""What an attacker who knows which value often follows which learns from a lasting table. Reported, not promised.

Rules S1 to S5 hide a value among those of its signature, and that it changed is seen (docs/design.md, "Outside the
model"). Somebody who knows that one value often follows another may weigh pairs: of the m values before and the m
after, some pairs are likelier than others. The adversary here knows how often every value followed every other in this
very table, without the person who is attacked (that person's own changes are taken out), and who changed when.

A person's *career* is the values that followed one another: where exactly one value of theirs ended and one began. Each
value of a career is any of its signature equally often; a value that was never shown under one says nothing. A pair
(a, b) weighs T(b | a) / π(b), T being the share of b among what followed a, drawn towards π, the share of b among all
that followed anything. How much it is drawn is what foretells each change best from all others: few changes say little
about so many pairs, and believing them would make the adversary sure of nonsense.

One claim per person: the surest value of a career, over 1/l. Cost: changes times m².
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import log
from typing import Any, NamedTuple

from shoal.core.audit.attack.worlds import Token

_MARGIN = 1e-9
_PULLS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)  # changes that T is drawn towards π with


class Followed(NamedTuple):
    """People with a change between two values that were shown, claims over 1/l about them, and how many are right."""

    people: int
    over: int
    right: int

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


class _Spell(NamedTuple):
    """One value of a career: the leaf, and what it was shown as; None if it never was."""

    leaf: int
    signature: tuple[Token, ...] | None


class Following:
    """Sees a lasting table release by release."""

    def __init__(self) -> None:
        self._before: Mapping[str, frozenset[int]] = {}
        self._careers: dict[str, list[list[int]]] = defaultdict(list)  # by person: leaves that followed one another
        self._signatures: dict[tuple[str, int], tuple[Token, ...]] = {}

    def see(
        self,
        entries: Iterable[tuple[Mapping[Token, int], Sequence[tuple[str, int | None]]]],
        held: Mapping[str, frozenset[int]],
    ) -> None:
        """Takes a release: the groups that show signatures, with the person and leaf of each row, and the truth."""
        for shown, rows in entries:
            signature = tuple(shown)
            for person, leaf in rows:
                if leaf is not None:
                    self._signatures.setdefault((person, leaf), signature)
        for person, values in held.items():
            before = self._before.get(person)
            if before is None or before == values:
                continue
            ended, began = before - values, values - before
            if len(ended) == len(began) == 1:
                self._extend(person, *ended, *began)
        self._before = dict(held)

    def _extend(self, person: str, ended: int, began: int) -> None:
        careers = self._careers[person]
        career = next((career for career in careers if career[-1] == ended), None)
        if career is None:
            careers.append([ended, began])
        else:
            career.append(began)

    def result(self, l: float) -> Followed:
        """What the adversary claims."""
        bound = float(1 / Fraction(l)) + _MARGIN
        changes = Counter(pair for careers in self._careers.values() for pair in _pairs(careers))
        follows = _Follows(changes)
        people = over = right = 0
        for person, careers in self._careers.items():
            spells = [[_Spell(leaf, self._signatures.get((person, leaf))) for leaf in career] for career in careers]
            told = [career for career in spells if sum(spell.signature is not None for spell in career) > 1]
            if not told:
                continue
            people += 1
            own = Counter(_pairs(careers))
            surest, is_right = max(claim for career in told for claim in _claims(career, follows, own))
            if surest > bound:
                over += 1
                right += is_right
        return Followed(people, over, right)


class _Follows:
    """How often values followed one another, and what a pair weighs."""

    def __init__(self, changes: Counter[tuple[int, int]]) -> None:
        self._changes = changes
        self._after: Counter[int] = Counter()
        self._from: Counter[int] = Counter()
        for (one, other), count in changes.items():
            self._from[one] += count
            self._after[other] += count
        self._total = changes.total()
        self._pull = max(_PULLS, key=self._foretold)

    def _foretold(self, pull: float) -> float:
        """How well each change is foretold by all others: the logarithm of what T gives them together."""
        found = 0.0
        for (one, other), count in self._changes.items():
            share = self._after[other] / self._total
            found += count * log((count - 1 + pull * share) / (self._from[one] - 1 + pull))
        return found

    def weight(self, one: int, other: int, own: Counter[tuple[int, int]]) -> float:
        """T(other | one) / π(other), without somebody's own changes."""
        pair = self._changes[one, other] - own[one, other]
        from_one = self._from[one] - sum(count for (a, _), count in own.items() if a == one)
        after = self._after[other] - sum(count for (_, b), count in own.items() if b == other)
        share = (after + 1) / (self._total - own.total() + 1)  # nothing is impossible
        return (pair + self._pull * share) / (from_one + self._pull) / share


def _claims(career: Sequence[_Spell], follows: _Follows, own: Counter[tuple[int, int]]) -> Iterator[tuple[float, bool]]:
    """The surest value of each spell of a career that was shown, and whether it is right."""
    # Where a spell was not shown, the values around it say nothing about each other.
    runs: list[list[_Spell]] = [[]]
    for spell in career:
        if spell.signature is None:
            runs.append([])
        else:
            runs[-1].append(spell)
    for run in runs:
        for spell, beliefs in zip(run, _beliefs(run, follows, own), strict=True):
            leaf, surest = max(beliefs.items(), key=lambda belief: (belief[1], -belief[0]))
            yield surest, leaf == spell.leaf


def _beliefs(run: Sequence[_Spell], follows: _Follows, own: Counter[tuple[int, int]]) -> Iterator[Mapping[int, float]]:
    """Forwards and backwards over a run of spells that were all shown."""
    leaves = [[leaf for token in spell.signature or () for leaf in token] for spell in run]
    weights = [
        {(a, b): follows.weight(a, b, own) if a != b else 0.0 for a in before for b in after}
        for before, after in pairwise(leaves)
    ]
    ahead = [dict.fromkeys(leaves[0], 1.0)] if leaves else []
    for after, weight in zip(leaves[1:], weights, strict=True):
        before = ahead[-1]
        ahead.append(_scaled({b: sum(before[a] * weight[a, b] for a in before) for b in after}))
    behind = [dict.fromkeys(leaves[-1], 1.0)] if leaves else []
    for before_leaves, weight in zip(leaves[-2::-1], weights[::-1], strict=True):
        later = behind[-1]
        behind.append(_scaled({a: sum(later[b] * weight[a, b] for b in later) for a in before_leaves}))
    for one, other in zip(ahead, behind[::-1], strict=True):
        yield _scaled({leaf: one[leaf] * other[leaf] for leaf in one})


def _scaled(beliefs: dict[int, float]) -> dict[int, float]:
    total = sum(beliefs.values())
    return {leaf: belief / total for leaf, belief in beliefs.items()}


def _pairs(careers: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    return (pair for career in careers for pair in pairwise(career))
