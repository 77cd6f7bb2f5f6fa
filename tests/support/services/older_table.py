"""A table as an older version left it (tests/support/older.py), on real services."""

import asyncio
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgpack
from confluent_kafka.admin import AdminClient

from shoal.core.state import Meta
from shoal.streams.kafka.topics import ensure_topics
from tests.support.older import read_older
from tests.support.services.table import Table, await_that


class OlderTable(Table):
    """Its topics and its Redis hold what they held when the older version's worker stopped."""

    def __init__(self, kafka: str, redis: str, folder: Path, name: str) -> None:
        self.older = read_older(name)
        super().__init__(kafka, redis, folder, self.older.name, self.older.partitions)
        self.policy_path.write_bytes(self.older.policy)
        self._make_topics()
        self.put_back()

    def environment(self, **settings: str) -> dict[str, str]:
        key = {"STATE_KEY": self.older.state_key} if self.older.state_key else {}
        return super().environment(**{**key, **settings})

    def forget_releases(self) -> None:
        """Have it be the table before its first release: everything on the topics but what was published."""
        self._make_topics(without=self.topics.releases)
        last = Meta(0, None, 1, 0.0, "2.0", sha256(self.older.policy).hexdigest())
        with self.connect() as client:
            kept = (b"}:meta", b"}:ingest")
            client.unlink(*(key for key in self.keys if not key.endswith(kept)))
            meta = {"release": 0, "sent": 0, "applied": 0, "manifest": "", "counts": "0 0 0 0 0 0 0 0"}
            client.hset(f"{{shoal:{self.name}}}:meta", mapping={**meta, "state": msgpack.packb(tuple(last))})

    def _make_topics(self, without: str = "") -> None:
        """Another test may have had this table: its name cannot be another one, for its bytes say it."""
        admin = AdminClient({"bootstrap.servers": self.kafka})
        names = set(admin.list_topics(timeout=30).topics) & set(self.topics.all)
        for future in admin.delete_topics(sorted(names)).values() if names else ():
            future.result(30)
        await_that(lambda: not names & set(admin.list_topics(timeout=30).topics), 30)
        asyncio.run(ensure_topics([self.kafka], self.name, self.partitions, within_s=30))
        for topic in (name for name in self.topics.all if name != without):
            for partition, records in enumerate(self.older.topics[topic.rpartition(".")[2]]):
                for key, value, headers in records:
                    self._producer.produce(topic, value, key, partition, headers=[tuple(pair) for pair in headers])
        self.flush()

    def put_back(self) -> None:
        """Redis as it was."""
        self.wipe()
        with self.connect() as client:
            for name, kind, content in self.older.redis:
                key = f"{{shoal:{self.name}}}:{name}"
                if kind == "hash":
                    client.hset(key, mapping={field: value for field, value in content if _is_kept(name, field)})
                elif kind == "list":
                    client.rpush(key, *content)
                elif kind == "set":
                    client.sadd(key, *content)

    def move_to_this_broker(self) -> None:
        """Have it forget Kafka's id of its events topic, which was on another broker."""
        with self.connect() as client:
            client.hdel(f"{{shoal:{self.name}}}:meta", "events")

    def say_values(self, values: str = "redrawn") -> None:
        """Have the policy name the model of its values, as every policy of a redrawn table has to now."""
        policy = json.loads(self.older.policy)
        if "counterfeits" not in policy["privacy"]:  # a lasting one
            self.policy_path.write_text(json.dumps({**policy, "privacy": {**policy["privacy"], "values": values}}))

    def content(self) -> dict[str, Any]:
        """What a planner would load once it is upgraded."""
        as_it_was = self.policy_path.read_bytes()
        self.say_values()
        found = self.stored(self.older.state_key)
        self.policy_path.write_bytes(as_it_was)
        return found

    def dump(self) -> dict[bytes, Any]:
        """Everything that Redis holds of it, byte for byte, but for who owns it."""
        found: dict[bytes, Any] = {}
        with self.connect() as client:
            for key in self.keys:
                kind = client.type(key)
                if kind == b"hash":
                    fields = client.hgetall(key)
                    found[key] = {name: fields[name] for name in fields if not name.startswith(b"token:")}
                else:
                    found[key] = client.lrange(key, 0, -1) if kind == b"list" else client.type(key)
        return found


def _is_kept(name: str, field: bytes) -> bool:
    """All but Kafka's id of an events topic that was on another broker; older brokers did not tell it either."""
    return (name, field) != ("meta", b"events")
