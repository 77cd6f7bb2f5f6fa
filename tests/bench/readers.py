"""What Shoal's ingest is compared with: processes that read the same topic, decode msgpack, and do nothing more.

`python -m tests.bench.readers raw|faust KAFKA TOPIC COUNT` prints one line of JSON: events, seconds from the first
batch to the last, and seconds of a core in between. The first batch is not counted: it ends the wait for the broker.
"""

import asyncio
import json
import resource
import sys
import tempfile
import time
from typing import Any

import msgpack

from tests.bench.load import PARTITIONS


class _Stopwatch:
    def __init__(self, count: int) -> None:
        self._wanted, self._seen, self._first = count, 0, 0
        self._wall = self._core = 0.0

    def add(self, events: int) -> bool:
        """Whether that was enough."""
        self._seen += events
        if not self._first and self._seen:
            self._first, self._wall, self._core = self._seen, time.perf_counter(), _core_s()
        return self._seen >= self._wanted

    def report(self) -> None:
        found = {
            "events": self._seen - self._first,
            "wall_s": time.perf_counter() - self._wall,
            "core_s": _core_s() - self._core,
        }
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


def _core_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def read_raw(kafka: str, topic: str, count: int) -> None:
    """aiokafka's `getmany` and `msgpack.unpackb`, with the fetch sizes of Shoal's own consumer."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=2 * 1024 * 1024,
        fetch_max_wait_ms=100,
    )
    await consumer.start()
    consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
    await consumer.seek_to_beginning()
    watch, unpack, is_done = _Stopwatch(count), msgpack.unpackb, False
    while not is_done:
        fetched = await consumer.getmany(timeout_ms=100, max_records=16_000)
        for records in fetched.values():
            for record in records:
                unpack(record.value)
        is_done = watch.add(sum(map(len, fetched.values())))
    watch.report()
    await consumer.stop()


def read_faust(kafka: str, topic: str, count: int) -> None:
    """A plain Faust agent, one event at a time."""
    import faust

    # mode installs its own loop policy on import; a Faust app wants to find a loop.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    app = faust.App(
        f"bench-{time.time_ns()}",
        broker=f"aiokafka://{kafka}",
        store="memory://",
        web_enabled=False,
        topic_disable_leader=True,
        topic_allow_declare=False,
        consumer_auto_offset_reset="earliest",
        datadir=tempfile.mkdtemp(prefix="shoal-bench-"),
    )
    events = app.topic(topic, value_type=bytes, value_serializer="raw", key_type=bytes, key_serializer="raw")
    watch, unpack = _Stopwatch(count), msgpack.unpackb
    finished = asyncio.Event()

    @app.agent(events)
    async def read(stream: Any) -> None:
        async for event in stream:
            unpack(event)
            if watch.add(1) and not finished.is_set():
                watch.report()
                finished.set()

    async def run() -> None:
        await app.start()
        await finished.wait()
        await app.stop()

    loop.run_until_complete(run())


def main() -> None:
    kind, kafka, topic, count = sys.argv[1:]
    if kind == "raw":
        asyncio.run(read_raw(kafka, topic, int(count)))
    else:
        read_faust(kafka, topic, int(count))


if __name__ == "__main__":
    main()
