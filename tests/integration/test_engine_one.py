"""A table begun by engine 1 is refused by worker, rebuild and replay, in one sentence each that says what to do."""

import asyncio

import pytest
from confluent_kafka import Producer

from shoal.core.state import ENGINE
from shoal.streams.kafka.topics import ensure_topics
from tests.support import engine_one
from tests.support.services.table import Make, Table, insert


@pytest.fixture
def older(make: Make) -> Table:
    """Its topics and its Redis, as engine 1 left them, and one event that came since."""
    table = make()
    asyncio.run(ensure_topics([table.kafka], table.name, table.partitions, within_s=30))
    producer = Producer({"bootstrap.servers": table.kafka})
    producer.produce(table.topics.releases, value=engine_one.RECORD, partition=0)
    producer.produce(table.topics.releases, value=engine_one.MANIFEST, partition=0, headers=engine_one.HEADERS)
    assert producer.flush(30) == 0
    with table.connect() as client:
        client.hset(f"{{shoal:{table.name}}}:meta", mapping=engine_one.META)
    table.send([insert(1)])
    return table


def test_the_state_that_it_left_in_redis_is_refused_by_worker_and_rebuild(older: Table) -> None:
    before = older.keys
    sentence = f"table {older.name} was begun by engine 1.0, and this is engine {ENGINE}: go on with the version of "
    assert sentence in _refused(older)
    rebuilt = older.run("rebuild")
    assert rebuilt.returncode == 2
    assert sentence in rebuilt.stderr
    assert "Traceback" not in rebuilt.stderr
    assert older.keys == before, "nothing is written to what is refused"


def test_the_releases_that_it_published_are_refused_by_worker_rebuild_and_reader(older: Table) -> None:
    older.wipe()
    assert f"release 1 of table {older.name} is in format 1" in _refused(older)
    for command in (("rebuild",), ("releases", "--out", str(older.folder / "read"))):
        done = older.run(*command)
        assert done.returncode == 2, done.stderr
        assert "release 1 is in format 1" in done.stderr
        assert "use the version that published it" in done.stderr
        assert "Traceback" not in done.stderr
    assert older.keys == []


def test_a_state_of_the_same_engine_in_another_format_is_refused_and_rebuilt(make: Make) -> None:
    table = make()
    worker = table.start_planner()
    table.send([insert(number) for number in range(60)])
    table.release()
    worker.await_log("release.applied")
    assert worker.stop() == 0
    before = table.stored()
    with table.connect() as client:
        client.hset(f"{{shoal:{table.name}}}:meta", "format", "6")
    assert "has format 6" in _refused(table)
    rebuilt = table.run("rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert table.stored() == before


def _refused(table: Table) -> str:
    """The one sentence with which a worker ends at once."""
    worker = table.start()
    assert worker.wait() == 2, worker.log
    (line,) = worker.log.strip().splitlines()
    return line
