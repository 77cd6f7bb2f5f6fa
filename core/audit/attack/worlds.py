"""Possible worlds, enumerated one by one: what every formula about groups must agree with on small tables.

A draw is one formation of a group: some people, and tokens, the values shown, each with the leaves it may stand for
("*" may be anything, and is taken for none of the protected values: a token for nothing). A world says for each draw
who owns which token as which leaf. A group that is carried over is one draw. What an adversary may think of owners:

- ONE_EACH: nobody owns two tokens (Wong, Definition 1; Xiao-Tao, Definition 9);
- SETS: nobody owns two tokens of one leaf, otherwise anything goes (Wong, section 6.3: a set of values per record);
- ANY: anyone may own any number of tokens (Xiao-Tao, Definition 10).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from itertools import combinations, permutations, product
from math import comb, perm, prod

from shoal.core.policy.hierarchy import Hierarchy

Token = tuple[int, ...]  # the leaf codes it may stand for
World = tuple[tuple[int, int | None], ...]  # (owner, leaf) of each token


class Owners(Enum):
    """Who may own how many tokens."""

    ONE_EACH = "one each"
    SETS = "sets"
    ANY = "any"


@dataclass(frozen=True)
class Draw:
    """A formation: so many people, numbered from 0, and its tokens. `person` is the one looked at, -1 for nobody."""

    people: int
    tokens: tuple[Token, ...]
    person: int
    owners: Owners = Owners.ONE_EACH


def tokens_of(hierarchy: Hierarchy, shown: Mapping[int, int]) -> tuple[Token, ...]:
    """The tokens of a published group, from its counts by node."""
    return tuple(
        tuple(range(hierarchy.first[node], hierarchy.last[node])) if node else ()
        for node, count in shown.items()
        for _ in range(count)
    )


def assignments(values: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
    """Every way to give each of a group's people one of its values: n!/Π nᵢ! of them (Wong, Lemma 3)."""
    left = Counter({value: count for value, count in values.items() if count})
    if not left:
        yield ()
    for value in [*left]:
        rest = left - Counter({value: 1})
        for others in assignments(rest):
            yield (value, *others)


def reconstructions(draw: Draw) -> Iterator[World]:
    """Every world of one draw, equal tokens told apart."""
    leaves = [token or (None,) for token in draw.tokens]
    if draw.owners is Owners.SETS:
        yield from _sets(draw)
        return
    count = len(draw.tokens)
    chosen: Iterator[tuple[int, ...]]
    if draw.owners is Owners.ONE_EACH:
        chosen = permutations(range(draw.people), count)
    else:
        chosen = product(range(draw.people), repeat=count)
    for owners in chosen:
        for kinds in product(*leaves):
            yield tuple(zip(owners, kinds, strict=True))


def _sets(draw: Draw) -> Iterator[World]:
    """Every way to choose the owners of each kind of token, independently: as many people as there are tokens."""
    kinds = Counter(draw.tokens)
    if any(len(token) > 1 for token in kinds):
        raise ValueError("sets of values are enumerated for leaves only")
    choices = [combinations(range(draw.people), min(count, draw.people)) for count in kinds.values()]
    for chosen in product(*choices):
        yield tuple(
            (owner, token[0] if token else None)
            for token, owners in zip(kinds, chosen, strict=True)
            for owner in owners
        )


def count_worlds(draw: Draw) -> int:
    """How many worlds `reconstructions` would go through."""
    if draw.owners is Owners.SETS:
        return prod(comb(draw.people, min(count, draw.people)) for count in Counter(draw.tokens).values())
    leaves = prod(len(token) or 1 for token in draw.tokens)
    count = len(draw.tokens)
    return leaves * (perm(draw.people, count) if draw.owners is Owners.ONE_EACH else draw.people**count)


def count_linked(draws: Sequence[Draw], leaves: frozenset[int]) -> tuple[int, int]:
    """How many worlds of all draws link the person to one of these leaves at least once, and how many there are.

    Goes through every combination (Wong, Definition 2): for small draws only.
    """
    linked = total = 0
    for worlds in product(*(list(reconstructions(draw)) for draw in draws)):
        total += 1
        linked += any(
            owner == draw.person and leaf in leaves
            for draw, world in zip(draws, worlds, strict=True)
            for owner, leaf in world
        )
    return linked, total


def linked_fraction(draws: Sequence[Draw], leaves: frozenset[int]) -> Fraction:
    """The share of worlds that link the person to one of these leaves."""
    return Fraction(*count_linked(draws, leaves))
