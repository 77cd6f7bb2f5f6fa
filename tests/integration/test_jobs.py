"""`shoal worker --jobs`: processes that end together. Workers with a name: their shards come back to them."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.ports import free_port
from tests.fault.scene import EVERYTHING, PATIENCE_S, Scene
from tests.support.services.table import Worker, await_that

SHARDS = 3


@pytest.fixture
def clinic(kafka: str, redis_db: str, table: str, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(kafka, redis_db, tmp_path, table, **{**EVERYTHING, "scale": {"shards": SHARDS}})
    yield made
    made.close()


@pytest.mark.timeout(300)
def test_jobs_make_releases_together_and_stop_together(clinic: Scene) -> None:
    worker = clinic.start("--jobs", "2", LOG_FORMAT="json")
    jobs = _jobs(worker)
    clinic.fill(200)
    clinic.ask()
    clinic.await_served()
    clinic.finish()
    assert worker.stop() == 0
    assert not any(map(_runs, jobs))
    assert {frozenset(line["shards"]) for line in _lines(worker, "shards.assigned")} - {frozenset(range(SHARDS))}


@pytest.mark.timeout(300)
def test_a_job_that_is_killed_ends_the_whole_and_says_how(clinic: Scene) -> None:
    worker = clinic.start("--jobs", "2", LOG_FORMAT="json")
    first, second = _jobs(worker)
    os.kill(first, signal.SIGKILL)
    assert worker.wait(PATIENCE_S) == 128 + signal.SIGKILL
    assert not _runs(second)


@pytest.mark.timeout(300)
def test_no_job_outlives_the_process_that_started_it(clinic: Scene) -> None:
    worker = clinic.start("--jobs", "2", LOG_FORMAT="json")
    jobs = _jobs(worker)
    worker.kill()
    await_that(lambda: not any(map(_runs, jobs)), PATIENCE_S)


@pytest.mark.timeout(300)
def test_an_error_of_a_job_is_the_exit_code_of_the_whole(clinic: Scene) -> None:
    away = {"REDIS": f"redis://127.0.0.1:{free_port()}/0", "CONNECT_S": "1"}
    alone, together = clinic.start(**away), clinic.start("--jobs", "2", **away)
    assert together.wait(PATIENCE_S) == alone.wait(PATIENCE_S) != 0
    assert "Redis" in together.log


@pytest.mark.timeout(300)
def test_a_restarted_worker_gets_its_shards_back_and_nobody_elses_move(clinic: Scene) -> None:
    named = {"LOG_FORMAT": "json", "SESSION_S": "40"}
    first = clinic.start(INSTANCE="first", **named)
    first.await_log("shard.load", PATIENCE_S, SHARDS)
    second = clinic.start(INSTANCE="second", **named)
    second.await_log("shard.load", PATIENCE_S)
    first.await_log("shards.assigned", PATIENCE_S, 2)
    kept, given = (_lines(worker, "shards.assigned")[-1]["shards"] for worker in (first, second))
    assert sorted(kept + given) == list(range(SHARDS))
    assert second.stop() == 0
    again = clinic.start(INSTANCE="second", **named)
    again.await_log("shards.assigned", PATIENCE_S)
    assert _lines(again, "shards.assigned")[-1]["shards"] == given
    clinic.fill(200)
    clinic.ask()
    clinic.await_served()
    assert [line["shards"] for line in _lines(first, "shards.assigned")] == [list(range(SHARDS)), kept]
    loads = [line["shard"] for line in _lines(first, "shard.load")]
    assert sorted(loads) == list(range(SHARDS)), "a shard that stayed was loaded again"
    clinic.finish()


@pytest.mark.timeout(300)
def test_of_two_workers_with_one_name_the_older_ends_with_a_sentence(clinic: Scene) -> None:
    older = clinic.start(INSTANCE="same", LOG_FORMAT="json")
    older.await_log("shards.assigned", PATIENCE_S)
    newer = clinic.start(INSTANCE="same", LOG_FORMAT="json")
    assert older.wait(PATIENCE_S) == 2
    said = f"another worker of table {clinic.name} was started as instance same: give each worker its own"
    assert said in older.log
    clinic.fill(200)
    clinic.ask()
    clinic.await_served()
    assert newer.process.poll() is None
    clinic.finish()


def _jobs(worker: Worker) -> list[int]:
    """The processes of both jobs, once they work."""
    worker.await_log("worker.start", PATIENCE_S, 2)
    return [line["pid"] for line in _lines(worker, "worker.start")]


def _lines(worker: Worker, event: str) -> list[dict[str, Any]]:
    told = (json.loads(line) for line in worker.log.splitlines() if line.startswith("{") and line.endswith("}"))
    return [line for line in told if line["event"] == event]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
