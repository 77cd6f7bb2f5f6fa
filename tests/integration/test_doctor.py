"""`shoal doctor` on real services: it says what a worker would find, and begins nothing."""

import json
from typing import Any

from deploy.local.ports import free_port
from shoal.streams.kafka.rights import worker_rights
from shoal.streams.kafka.topics import partition_counts
from tests.support.services.secure_kafka import SecureKafka
from tests.support.services.table import Make, Table, insert


def examine(table: Table, **settings: str) -> tuple[int, dict[str, list[tuple[str, str]]]]:
    """The exit code, and by what was looked at the verdicts with their sentences."""
    done = table.run("doctor", "--json", **settings)
    assert "Traceback" not in done.stderr
    found: dict[str, list[tuple[str, str]]] = {}
    for line in map(json.loads, done.stdout.splitlines()):
        found.setdefault(line["what"], []).append((line["verdict"], line["sentence"]))
    return done.returncode, found


def verdicts(found: dict[str, list[tuple[str, str]]]) -> list[str]:
    return [found[name][0][0] for name in ("Kafka", "topics", "Redis", "state")]


async def test_nothing_is_made_by_looking(make: Make) -> None:
    table = make()
    code, found = examine(table)
    assert code == 0
    assert {name: finding[0][0] for name, finding in found.items()} == dict.fromkeys(
        ["versions", "settings", "policy", "Kafka", "Kafka rights", "topics", "Redis", "durability", "state"], "ok"
    )
    assert "1 broker at" in found["Kafka"][0][1]
    assert "0 of 5 are there; a worker will make" in found["topics"][0][1]
    assert found["Redis"][0][1].startswith("redis ")
    assert found["state"][0][1] == f"table {table.name} has not begun"
    assert table.keys == []
    assert not any(table.name in topic for topic in await partition_counts([table.kafka]))


def test_it_finds_what_a_worker_would_refuse(make: Make) -> None:
    table = make()
    worker = table.start_planner()
    table.send([insert(number) for number in range(60)])
    table.release()
    worker.await_log("release.applied")
    assert worker.stop() == 0
    code, found = examine(table)
    assert code == 0
    assert found["state"] == [("ok", f"Redis and the topic of table {table.name} are at release 1")]
    code, found = examine(table, KEY="another secret of the tests")
    assert (code, found["state"][0][0]) == (2, "failed")
    assert "another SHOAL_KEY" in found["state"][0][1]
    table.wipe()
    code, found = examine(table)
    assert (code, found["state"][0][0]) == (1, "failed")
    assert "`shoal rebuild`" in found["state"][0][1]


def test_what_cannot_be_reached_is_said_and_the_rest_is_still_looked_at(make: Make) -> None:
    table = make()
    code, found = examine(table, KAFKA=f"127.0.0.1:{free_port()}")
    assert code == 3
    assert [found[name][0][0] for name in ("Kafka", "topics", "Redis", "state")] == [
        "failed",
        "skipped",
        "ok",
        "skipped",
    ]
    code, found = examine(table, REDIS=f"redis://:s3cret@127.0.0.1:{free_port()}/0")
    assert code == 3
    assert verdicts(found) == ["ok", "ok", "failed", "skipped"]
    assert "s3cret" not in str(found)


def test_a_right_that_is_missing_is_named(make: Make, secure_kafka: SecureKafka) -> None:
    table = make()
    settings: dict[str, Any] = secure_kafka.settings_for("worker")
    rights = worker_rights(table.name)
    secure_kafka.grant("worker", [right for right in rights if right.kind != "group"])
    code, found = examine(table, **settings)
    assert (code, found["Kafka rights"][0][0]) == (2, "failed")
    assert f"grant Read on group shoal.{table.name}.ingest" in found["Kafka rights"][0][1]
    assert found["topics"][0][0] == "skipped"
    secure_kafka.grant("worker", [])


def test_settings_and_policies_that_are_wrong_are_findings(make: Make) -> None:
    table = make()
    code, found = examine(table, PARTITIONS="none", NONSENSE="1")
    assert code == 2
    assert [verdict for verdict, _ in found["settings"]] == ["failed", "failed"]
    table.policy_path.write_text("table: T\n")
    code, found = examine(table)
    assert code == 2
    assert {verdict for verdict, _ in found["policy"]} == {"failed"}
    assert len(found["policy"]) > 1
