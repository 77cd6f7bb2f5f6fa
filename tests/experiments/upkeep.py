"""What a long series costs at least, whoever chooses the signatures: `python -m tests.experiments.upkeep`.

A signature lives from its first newcomers until its last entry has ended. Over that life it takes some newcomers, and
in every release it costs the counterfeits and the `*` that make it even. The least cost per newcomer taken, over all
ways to accept newcomers, times the newcomers per release, is what no publisher can go below for long.

The bound is generous. Every signature may take any newcomer with one of its values, as if no other needed that one, and
every place is offered at once, which is not safe. It takes the values of a signature as equally frequent, one thing to
happen at a time, and a signature to begin with one newcomer of each value or of some: two of a value are rare.

`least_upkeep` tries prices per newcomer. For each it improves the way in which a signature accepts newcomers, step by
step, until one costs less than the price or none is better.
"""

from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.experiments.zipf import Crowd

ROUNDS_AT_MOST = 8  # 10 give the same
CLASSES = 8  # of values that are about as frequent
EXACT, TIE = 1e-3, 1e-7
IN_GROUP = 4  # at most one in four of a group may be counterfeit

Counts = tuple[int, ...]  # entries by value of a signature, ascending


class _Lives(NamedTuple):
    """The states of a signature, the empty one first; by state and value, that with one entry less and one more."""

    counts: NDArray[np.int64]
    less: NDArray[np.int64]
    more: NDArray[np.int64]  # -1 beyond the most rounds
    cost: NDArray[np.float64]


def uneven(counts: Counts) -> int:
    """The fewest counterfeits and `*` with which a signature with these entries is even."""
    m, found = len(counts), []
    for rounds in range(max(counts) + 1):
        fakes = sum(max(0, rounds - count) for count in counts)
        if fakes * IN_GROUP <= rounds * m:
            found.append(fakes + sum(max(0, count - rounds) for count in counts))
    return min(found)


def least_upkeep(*, m: int, coming: float, ending: float, rounds: int = ROUNDS_AT_MOST) -> float:
    """The least cost per newcomer, in counterfeits and `*` times releases.

    In a release so many newcomers have each value (`coming`), and this share of the entries ends (`ending`).
    """
    lives = _lives(m, rounds)
    low, high = 0.0, 1 / ending  # a newcomer who is always "*" costs that
    while high - low > EXACT:
        price = (low + high) / 2
        low, high = (low, price) if _is_beaten(price, lives, coming, ending) else (price, high)
    return low


def _is_beaten(price: float, lives: _Lives, coming: float, ending: float) -> bool:
    """Whether a signature can take newcomers at less than this price each, over its life.

    Begins with a signature that takes nobody, and accepts whoever lowers the cost to come by more than the price.
    """
    accepts, begins = np.zeros(lives.more.shape, dtype=bool), lives.counts.max(axis=1) == 1
    while True:
        worth = _until_empty(lives, accepts, coming, ending, price)
        if (worth < price * lives.counts.sum(axis=1))[begins].any():
            return True
        gain = worth[:, None] + price - worth[lives.more]
        better = (lives.more >= 0) & (gain > np.where(accepts, -TIE, TIE))
        better[0] = False
        if (better == accepts).all():
            return False
        accepts = better


def _lives(m: int, rounds: int) -> _Lives:
    states = list(combinations_with_replacement(range(rounds + 1), m))
    number = {state: at for at, state in enumerate(states)}

    def changed(state: Counts, place: int, by: int) -> int:
        return number.get(tuple(sorted((*state[:place], state[place] + by, *state[place + 1 :]))), -1)

    less = [[changed(state, place, -1) for place in range(m)] for state in states]
    more = [[changed(state, place, 1) for place in range(m)] for state in states]
    cost = [uneven(state) for state in states]
    return _Lives(np.array(states), np.array(less), np.array(more), np.array(cost, dtype=np.float64))


def _until_empty(
    lives: _Lives, accepts: NDArray[np.bool_], coming: float, ending: float, price: float
) -> NDArray[np.float64]:
    """By state, the expected cost until the signature is empty, less the price of each newcomer it accepts."""
    size = len(lives.counts)
    flow = np.zeros((size, size))
    for place in range(lives.counts.shape[1]):
        ends = np.flatnonzero(lives.counts[:, place])
        np.add.at(flow, (ends, lives.less[ends, place]), ending * lives.counts[ends, place])
        comes = np.flatnonzero(accepts[:, place])
        np.add.at(flow, (comes, lives.more[comes, place]), coming)
    balance = np.diag(flow.sum(axis=1)) - flow
    rate = lives.cost - price * coming * accepts.sum(axis=1)
    return np.append(0.0, np.linalg.solve(balance[1:, 1:], rate[1:]))


def main() -> None:
    crowd, ending = Crowd(), 0.02
    chances = np.arange(1, crowd.values + 1) ** -crowd.exponent
    coming = crowd.people * ending * chances[crowd.open_values :] / chances.sum()
    least = 0.0
    for alike in np.array_split(coming, CLASSES):
        price = least_upkeep(m=4, coming=float(alike.mean()), ending=ending)
        least += price * float(alike.sum())
        print(f"{alike.mean():.3f} newcomers of each value: {price:.2f} for each newcomer")
    print(f"at least {least / crowd.people:.2%} of the rows, for {coming.sum():.0f} newcomers per release")
    for holders in (2, 4, 8, 16, 32):
        price = least_upkeep(m=4, coming=holders * ending, ending=ending)
        print(f"{holders} holders of each value: {price * holders * ending:.2f} for each value at any time")


if __name__ == "__main__":
    main()
