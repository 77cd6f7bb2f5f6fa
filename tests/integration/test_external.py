"""Other publishers' tables through a real Kafka: taken at the freeze, sealed with the release, and rebuilt."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.table import Table, insert

DISEASES = ("flu", "asthma", "gastritis", "angina", "gout", "lupus")


def publication(publisher: str, step: int, **counts: int) -> dict[str, Any]:
    groups = [
        {"region": {"age": {"min": low, "max": low + step - 1}}, "sensitive": {**dict.fromkeys(DISEASES, 1), **counts}}
        for low in range(0, 120, step)
    ]
    return {"op": "external", "publisher": publisher, "groups": groups}


@pytest.fixture
def beside(kafka: str, redis_url: str, tmp_path: Path, table: str) -> Iterator[Table]:
    privacy = {"k": 3, "l": 2, "overlap": 3, "strategy": {"name": "adaptive", "releases": 3}}
    made = Table(kafka, redis_url, tmp_path, table, privacy=privacy)
    yield made
    made.close()


def test_what_others_publish_is_taken_once_and_what_is_wrong_becomes_a_dead_letter(beside: Table) -> None:
    worker = beside.start()
    worker.await_log("planner.ready")
    beside.publish(publication("north", 40), b"junk", {"op": "external", "publisher": "south"}, publication("east", 20))
    beside.send([insert(number) for number in range(200)])
    beside.request()
    (first,) = beside.await_releases(1)
    assert sum(json.loads(first.headers["external"])) == 4
    assert worker.stop() == 0
    beside.publish(publication("north", 30, flu=2, gout=3), {"op": "delete", "id": "p1"})
    beside.request()
    beside.start()
    beside.await_releases(2)
    beside.await_dead_letters(3)
    found = beside.judge()
    assert json.loads(found[1].manifest)["formed"] > 0  # broken and formed again beside what is new


@pytest.mark.parametrize("step", ["release.1", "release.3", "release.6", "release.9"])
def test_a_planner_killed_on_the_way_takes_the_same_publications_again(beside: Table, step: str) -> None:
    worker = beside.start(CRASH_AT=step)
    worker.await_log("planner.ready")
    beside.publish(publication("north", 40), b"junk")
    beside.send([insert(number) for number in range(100)])
    beside.request()
    assert worker.wait() == -signal.SIGKILL
    beside.publish(publication("south", 30))
    beside.request()
    beside.start()
    beside.await_releases(2)
    beside.await_dead_letters(1)
    beside.judge()


def test_a_rebuild_finds_every_publication_again(beside: Table, redis_url: str) -> None:
    worker = beside.start()
    worker.await_log("planner.ready")
    beside.publish(publication("north", 40), b"junk")
    beside.send([insert(number) for number in range(100)])
    beside.request()
    beside.await_releases(1)
    beside.await_dead_letters(1)
    assert worker.stop() == 0
    with redis.Redis.from_url(redis_url) as client:
        client.delete(*client.keys(f"{{shoal:{beside.name}}}:*"))
    rebuilt = beside.run("rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr
    beside.publish(publication("south", 60))
    beside.send([insert(number) for number in range(100, 130)])
    beside.request()
    beside.start()
    beside.await_releases(2)
    beside.judge()
