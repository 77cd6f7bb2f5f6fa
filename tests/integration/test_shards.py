"""Tables with shards on real services: the same bytes as in one process, however many workers make them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.scene import EVERYTHING, Scene

SHARDS = 3
_SHARDED = {**EVERYTHING, "scale": {"shards": SHARDS}}


@pytest.fixture
def clinic(kafka: str, redis_db: str, table: str, tmp_path: Path) -> Iterator[Scene]:
    """A table with shards, permanent values, other publishers beside it, sampling, and events that go astray."""
    made = Scene(kafka, redis_db, tmp_path, table, **_SHARDED)
    yield made
    made.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers_makes_what_one_process_makes(clinic: Scene, workers: int) -> None:
    started = [clinic.start() for _ in range(workers)]
    clinic.settle()  # with too few people for cuts
    clinic.fill(200)
    for _ in range(3):
        clinic.pour(150)
        clinic.ask()
        clinic.await_served()
    releases = clinic.finish()
    last = json.loads(releases[-1].manifest)
    assert [one["shard"] for one in last["shards"]] == list(range(SHARDS))
    assert all(one["people"] for one in last["shards"]), "a shard without people shows nothing"
    assert all(worker.stop() == 0 for worker in started)
