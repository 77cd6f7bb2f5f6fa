"""The services the other tests stand on do what those tests take for granted."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
import redis
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.local import Kafka, Local, Redis
from deploy.local.ports import answers
from tests.support.root import ROOT


def create_topic(kafka: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})  # named: a collected client takes its open requests with it
    (created,) = admin.create_topics([NewTopic(topic, 1, 1)]).values()
    created.result(timeout=30)


async def read(kafka: str, topic: str, isolation: str) -> list[bytes]:
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka, isolation_level=isolation, auto_offset_reset="earliest")
    await consumer.start()
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        values: list[bytes] = []
        # Control records take offsets and are never handed out, so the position says when the end is reached.
        while await consumer.position(partition) < end:
            records = (await consumer.getmany(timeout_ms=200)).get(partition, [])
            values.extend(record.value for record in records)
        return values
    finally:
        await consumer.stop()


@contextlib.asynccontextmanager
async def transactional(kafka: str, name: str):  # type: ignore[no-untyped-def]  # aiokafka has no types
    producer = AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=name)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def test_a_committed_transaction_is_read_and_an_aborted_one_is_not(kafka: str, table: str) -> None:
    create_topic(kafka, table)
    async with transactional(kafka, table) as producer:
        async with producer.transaction():
            await producer.send_and_wait(table, b"kept", partition=0)
        await producer.begin_transaction()
        await producer.send_and_wait(table, b"dropped", partition=0)
        await producer.abort_transaction()
    assert await read(kafka, table, "read_committed") == [b"kept"]
    # The twin: without the isolation level the aborted record is there, so the broker did have something to hide.
    assert await read(kafka, table, "read_uncommitted") == [b"kept", b"dropped"]


async def test_a_second_producer_with_the_same_transactional_id_fences_the_first(kafka: str, table: str) -> None:
    create_topic(kafka, table)
    async with transactional(kafka, table) as zombie:
        await zombie.begin_transaction()
        await zombie.send_and_wait(table, b"zombie", partition=0)
        async with transactional(kafka, table) as successor, successor.transaction():
            await successor.send_and_wait(table, b"successor", partition=0)
        with pytest.raises(ProducerFenced):
            await zombie.commit_transaction()
    assert await read(kafka, table, "read_committed") == [b"successor"]


async def test_a_topic_that_nobody_created_does_not_appear_by_itself(kafka: str, table: str) -> None:
    listed = AdminClient({"bootstrap.servers": kafka}).list_topics(table, timeout=10)
    assert listed.topics[table].error is not None
    assert table not in AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=10).topics


async def test_kafka_keeps_a_committed_transaction_through_kill_9(native_services: Local, table: str) -> None:
    kafka = native_services.kafka
    create_topic(kafka.address, table)
    async with transactional(kafka.address, table) as producer, producer.transaction():
        await producer.send_and_wait(table, b"kept", partition=0)
    before = kafka.pid
    kafka.kill()
    assert not answers(kafka.port)
    kafka.restart()
    assert kafka.pid != before
    assert await read(kafka.address, table, "read_committed") == [b"kept"]


def test_redis_keeps_every_acknowledged_write_through_kill_9(native_services: Local, table: str) -> None:
    service = native_services.redis
    with redis.Redis.from_url(service.address) as client:
        acknowledged = 0
        for number in range(500):
            client.hset(table, str(number), b"x" * 100)
            acknowledged += 1
        service.kill()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        service.restart()
        assert client.hlen(table) == acknowledged
        client.delete(table)


def test_redis_without_its_append_only_file_forgets_so_the_test_above_can_fail(tmp_path: Path) -> None:
    with Redis(tmp_path) as service, redis.Redis.from_url(service.address) as client:
        client.set("a", "b")
        client.config_set("appendonly", "no")
        client.set("c", "d")
        service.kill()
        service.restart()
        assert (client.get("a"), client.get("c")) == (b"b", None)


def test_a_paused_redis_accepts_a_connection_and_answers_nothing(native_services: Local) -> None:
    service = native_services.redis
    service.pause()
    try:
        with (
            redis.Redis.from_url(service.address, socket_timeout=0.3, retry=None) as client,
            pytest.raises(redis.TimeoutError),
        ):
            client.ping()
    finally:
        service.resume()
    with redis.Redis.from_url(service.address) as client:
        assert client.ping()


def test_each_test_has_a_redis_database_of_its_own(redis_db: str, redis_url: str) -> None:
    with redis.Redis.from_url(redis_db) as client:
        assert client.dbsize() == 0
        client.set("mine", 1)
    with redis.Redis.from_url(redis_url) as shared:
        assert shared.get("mine") is None


def test_services_listen_on_the_loopback_interface_only(native_services: Local) -> None:
    local = {"0100007F", "0000000000000000FFFF00000100007F"}
    listening = {
        (address, int(port, 16))
        for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
        for address, port in (
            line.split()[1].split(":") for line in table.read_text().splitlines()[1:] if line.split()[3] == "0A"
        )
    }
    for service in native_services:
        found = {address for address, port in listening if port == service.port}
        assert found
        assert found <= local, f"{service.name} listens on {found - local}"


def test_a_service_ends_with_the_process_that_started_it_even_if_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, time, pathlib\nfrom deploy.local import Redis\n"
        "redis = Redis(pathlib.Path(sys.argv[1])).start()\nprint(redis.port, flush=True)\ntime.sleep(60)\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    port = int(owner.stdout.readline())
    assert answers(port)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    deadline = time.monotonic() + 5
    while answers(port) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not answers(port)


@pytest.mark.slow
def test_the_command_line_starts_both_in_the_background_and_stops_them(native_services: Local, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "deploy.local", "--folder", str(tmp_path / "local")]
    up = subprocess.run([*command, "up"], cwd=ROOT, capture_output=True, text=True, check=True)
    try:
        settings = dict(line.split("=", 1) for line in up.stdout.splitlines())
        assert settings.keys() == {"SHOAL_KAFKA", "SHOAL_REDIS"}
        assert AdminClient({"bootstrap.servers": settings["SHOAL_KAFKA"]}).list_topics(timeout=10).brokers
        with redis.Redis.from_url(settings["SHOAL_REDIS"]) as client:
            assert client.config_get("appendfsync") == {"appendfsync": "always"}
        again = subprocess.run([*command, "up"], cwd=ROOT, capture_output=True, text=True, check=True)
        assert (again.stdout, "already up" in again.stderr) == (up.stdout, True)
    finally:
        down = subprocess.run([*command, "down"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "stopped kafka and redis" in down.stderr
    assert not answers(int(settings["SHOAL_KAFKA"].rpartition(":")[2]))


def test_a_cluster_id_that_begins_with_a_dash_is_not_taken_for_an_option(
    native_services: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(bytes=b"\xfb" * 16))
    kafka = Kafka(tmp_path)
    kafka.prepare()
    assert "cluster.id=-_v7" in (tmp_path / "logs" / "meta.properties").read_text()


def test_a_foreground_run_ends_cleanly_when_asked_to(native_services: Local) -> None:
    run = subprocess.Popen([sys.executable, "-m", "deploy.local", "run"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    port = int(run.stdout.readline().strip().rpartition(":")[2])
    os.kill(run.pid, signal.SIGTERM)
    assert run.wait(timeout=30) == 0
    run.stdout.close()
    assert not answers(port)
