"""Newcomers to be dealt, made up by hand or at random, and what must hold of their rounds."""

from collections.abc import Iterable, Mapping, Sequence
from random import Random

import numpy as np

from shoal.core.randomness import Tags
from shoal.core.signatures.dealing import Dealing, Draws, Values
from shoal.core.signatures.newcomers import ANY, NO_ROUND, Newcomers, mask_of, values_in
from shoal.core.signatures.rounds import Rounds


def newcomers(
    values: Sequence[int],
    *,
    shunned: Mapping[int, Iterable[int]] | None = None,
    people: Sequence[Sequence[int]] = (),
    wanted: Mapping[int, int] | None = None,
    seed: int = 0,
) -> Newcomers:
    """Newcomers with these values. `people` are the positions of those with several, `wanted` signatures by position."""
    random, size = Random(seed), len(values)
    places = np.array([random.randrange(100) for _ in values], dtype=np.int64)
    draws = np.sort(np.array([random.getrandbits(60) for _ in values], dtype=np.uint64))
    wants = np.full(size, ANY, dtype=np.int64)
    for position, signature in (wanted or {}).items():
        wants[position] = signature
    masks = {position: mask_of(values) for position, values in (shunned or {}).items()}
    siblings = {one: [other for other in mine if other != one] for mine in people for one in mine}
    return Newcomers(np.array(values, dtype=np.int64), places, draws, wants, masks, siblings)


def draw_newcomers(random: Random, values: int, size: int) -> Newcomers:
    """Some of them shun a few values, and some are of one person, whose values differ."""
    drawn = [random.randrange(values) for _ in range(size)]
    shunned = {
        one: set(random.sample(range(values), 2)) - {drawn[one]} for one in random.sample(range(size), size // 4)
    }
    left = random.sample(range(size), size // 2)
    people = [pair for pair in zip(left[::2], left[1::2], strict=False) if drawn[pair[0]] != drawn[pair[1]]]
    return newcomers(drawn, shunned=shunned, people=people, seed=random.randrange(1000))


def rounds_of(many: Newcomers, least: int = 4, seed: int = 0) -> Rounds:
    """No rounds yet."""
    values = int(many.value.max()) + 1
    random = Random(seed)
    blocks = [value // least for value in range(values)]
    return Rounds(many, least, blocks, lambda count: [random.getrandbits(60) for _ in range(count)])


def deal(
    many: Newcomers, sets: Sequence[tuple[int, ...]] = (), *, m: int = 4, l: float = 2, seed: int = 0, leaves: int = 0
) -> Dealing:
    """One pool, dealt."""
    leaves = max(leaves, int(many.value.max()) + 1)
    order = sorted(range(leaves), key=lambda value: (-int(np.count_nonzero(many.value == value)), value))
    values = Values(order, [order.index(value) // m for value in range(leaves)])
    dealing = Dealing(many, sets, values, m, l, draws_of(seed))
    dealing.run()
    return dealing


def draws_of(seed: int) -> Draws:
    """Random numbers for every purpose."""

    def draws(purpose: str, count: int) -> Tags:
        random = Random(f"{seed} {purpose}")
        return np.array([random.getrandbits(60) for _ in range(count)], dtype=np.uint64)

    return draws


def check_rounds(many: Newcomers, rounds: Rounds, least: int) -> None:
    """Everybody in a round fits it: nobody shuns what it shows, nor is there a value or a person twice."""
    value = many.value.tolist()
    for place, members in enumerate(rounds.members):
        assert rounds.masks[place] == mask_of(value[one] for one in members)
        assert len({value[one] for one in members}) == len(members)
        assert not members or least <= len(members) < 2 * least or place in rounds.closed
        for one in members:
            assert rounds.round_of[one] == place
            assert not set(many.siblings.get(one, ())) & set(members)
            assert not rounds.shuns(one) & rounds.masks[place], "somebody is shown among what they shun"
    assert sum(map(len, rounds.members)) == sum(place != NO_ROUND for place in rounds.round_of)


def signatures_of(dealing: Dealing) -> list[tuple[int, ...]]:
    """The values of each round."""
    return [values_in(mask) for mask in dealing.rounds.masks if mask]
