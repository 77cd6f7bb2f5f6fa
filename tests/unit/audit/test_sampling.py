"""The coins of sampling, audited without their secret: engines that toss them again, or with another share."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.core.audit.criteria.coins import SHARE, TOSSED_AGAIN, is_unlikely
from shoal.core.randomness import Keyed, Tags
from tests.support.engines.audited import Bench, engine_that, sentences
from tests.support.engines.series import churn, clinic_policy
from tests.support.judges.series import Table

TABLES: list[Table] = churn(200, 4, "secret-")
AWAY_AND_BACK: list[Table] = [TABLES[0], {}, TABLES[0]]


def run(path: Path, tables: list[Table], rho: float = 0.5) -> Bench:
    policy = clinic_policy(k=3, sampling=rho, strategy={"name": "adaptive", "releases": 3})
    return Bench(path, policy).replay(tables)


class TossedAgain:
    """Tosses every coin anew for each release (sampled rows are asked for several times in one)."""

    def __init__(self) -> None:
        self.release = 0

    def __call__(self, keyed: Keyed, tags: Tags, rho: float) -> Any:
        return np.asarray((tags + np.uint64(self.release)) % np.uint64(10) < np.uint64(10 * rho))


@pytest.mark.parametrize("tables", [TABLES, AWAY_AND_BACK], ids=["churn", "away and back"])
def test_coins_that_are_tossed_once_pass(tmp_path: Path, tables: list[Table]) -> None:
    assert sentences(run(tmp_path, tables).audit()) == set()


@pytest.mark.parametrize("tables", [TABLES, AWAY_AND_BACK], ids=["churn", "away and back"])
def test_an_engine_that_tosses_coins_again_is_found_out(
    tmp_path: Path, tables: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    coins = TossedAgain()
    monkeypatch.setattr("shoal.core.people.sampling", coins)

    def count(number: int, _records: Any, _manifest: Any) -> None:
        coins.release = number

    monkeypatch.setattr("shoal.streams.files.replay_series.plan", engine_that(count))
    assert f"G5: {TOSSED_AGAIN}" in sentences(run(tmp_path, tables).audit())


def test_an_engine_that_keeps_out_fewer_than_the_policy_says_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.core.people.sampling", lambda keyed, tags, _: keyed.coin(tags, 0.9))
    assert sentences(run(tmp_path, TABLES[:1]).audit()) == {f"G5: {SHARE}"}


@pytest.mark.parametrize(
    ("kept_out", "people", "share", "expected"),
    [
        (500, 1000, 0.5, False),
        (420, 1000, 0.5, False),  # five standard deviations
        (370, 1000, 0.5, True),  # eight
        (3, 100, 0.001, False),  # a chance of one in 6,000 is no proof
        (20, 100, 0.001, True),
        (0, 5, 0.5, False),
        (5, 5, 0.5, False),
        (0, 0, 0.5, False),
    ],
)
def test_only_what_is_next_to_impossible_is_called_so(kept_out: int, people: int, share: float, expected: bool) -> None:
    assert is_unlikely(kept_out, people, share) is expected
