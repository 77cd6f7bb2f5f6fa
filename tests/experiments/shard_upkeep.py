"""What shards cost at least in their first releases: `python -m tests.experiments.shard_upkeep`.

Each shard evens out its signatures by itself, with its own newcomers. The model here is kinder than any table. Every
value but the most frequent is in one signature only, with the most frequent value and two others that are about as
frequent. Newcomers only fill places; those who find none cost nothing. The newcomers of the most frequent value never
run out. Places are offered by the engine's own rule (`Signatures.offer`). Half of the newcomers fit, because half are
people whose value changed: their earlier signature holds the most frequent value, so the next one must not (S2).

What is left is chance: in a quarter of the table the counts of a signature's values drift apart by half as much as in
the whole, in four places at once, and a quarter of the newcomers mends it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.signatures.signature import Signatures
from tests.bench.load import VALUES

PEOPLE = 1_000_000
SHARDS = 4
ENDING = 0.02 / 3  # of the rows, in each release after the first: 1 % changed, of which a third arrives
FITTING = 0.5
L = 2
SERIES = 30  # over which the figures are averaged


class _Table(NamedTuple):
    """Signatures of the most frequent value and three others each; by place, how many entries were lost so far."""

    signatures: Signatures
    ending: NDArray[np.float64]  # expected in a release
    lost: Rows


def counterfeits(shards: int, releases: int, *, is_safe: bool = True, fitting: float = FITTING) -> list[float]:
    """After each of these releases, the places that stay empty in all shards together, on average."""
    random = np.random.default_rng(shards)
    total = np.zeros(releases)
    for _ in range(SERIES * shards):
        table = _table(PEOPLE // shards)
        for release in range(releases):
            total[release] += _release(table, random, is_safe=is_safe, fitting=fitting)
    return [float(mean) for mean in total / SERIES]


def _table(people: int) -> _Table:
    chances = np.arange(1, VALUES + 1) ** -1.1
    rare = (chances / chances.sum())[1:].reshape(-1, 3)
    signatures = Signatures()
    for first in range(1, VALUES, 3):
        signatures.number((0, first, first + 1, first + 2))
    ending = people * ENDING * np.c_[rare.mean(axis=1), rare]
    return _Table(signatures, ending, np.zeros(ending.shape, dtype=np.int64))


def _release(table: _Table, random: np.random.Generator, *, is_safe: bool, fitting: float) -> int:
    signatures, lost = table.signatures, table.lost
    ended = random.poisson(table.ending)
    lost += ended
    lines, slots = np.nonzero(ended)
    times = ended[lines, slots]
    signatures.offer(np.repeat(lines, times), np.repeat(slots, times), L)
    offered, lacking = signatures.offered[: len(lost)], _lacking(lost)
    np.minimum(offered, lacking, out=offered)
    coming = random.poisson(table.ending * fitting)
    coming[:, 0] = lacking[:, 0]  # of the most frequent value there are always enough
    filled = np.minimum(offered if is_safe else lacking, coming)
    lost -= filled
    np.maximum(0, offered - filled, out=offered)
    return int(_lacking(lost).sum())


def _lacking(lost: Rows) -> Rows:
    """By place, how many more were lost there than of the value of the signature that lost least."""
    return np.asarray(lost - lost.min(axis=1, keepdims=True))


def main() -> None:
    for is_safe, fitting in ((True, FITTING), (True, 1.0), (False, 1.0)):
        offers = "by the rule" if is_safe else "at once, which is not safe"
        one, four = (counterfeits(shards, 2, is_safe=is_safe, fitting=fitting) for shards in (1, SHARDS))
        shares = " and ".join(f"{cost[-1] / PEOPLE:.3%}" for cost in (one, four))
        print(f"places offered {offers}, {fitting:.0%} of the newcomers fit:", end=" ")
        print(f"{shares} in 1 and {SHARDS} shards, {four[-1] / one[-1]:.1f} times")


if __name__ == "__main__":
    main()
