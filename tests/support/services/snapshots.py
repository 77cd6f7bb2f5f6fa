"""Snapshots of a table on real services: taken, restored, and what they make unnecessary deleted."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.services.table import SHARDED, Table

with_and_without_shards = pytest.mark.parametrize("kept", [{}, SHARDED], ids=["", "shards"], indirect=True)
"""Of tests that begin with a table that has a snapshot."""


def take(table: Table, to: Path, **secret: str) -> str:
    taken = table.run("snapshot", str(to), **secret)
    assert taken.returncode == 0, taken.stderr
    return taken.stdout


def restore(table: Table, path: Path, **secret: str) -> None:
    restored = table.run("restore", str(path), **secret)
    assert restored.returncode == 0, restored.stderr


def delete_before(table: Table, release: int) -> None:
    """Delete every event and trigger that a release has taken."""
    headers = table.releases()[release - 1].headers
    ends = [TopicPartition(table.topics.events, *place) for place in enumerate(json.loads(headers["offsets"]))]
    ends.append(TopicPartition(table.topics.triggers, 0, int(headers["trigger"]) + 1))
    admin = AdminClient({"bootstrap.servers": table.kafka})
    for done in admin.delete_records(ends).values():
        done.result()


def changed_policy(of: Table, **changes: Any) -> Path:
    """The policy of a table with changes."""
    policy = json.loads(of.policy_path.read_text())
    path = of.policy_path.with_name(f"changed-{'-'.join(changes)}.json")
    path.write_text(json.dumps({**policy, **changes}))
    return path


def key_of(table: Table, name: str) -> str:
    return f"{{shoal:{table.name}}}:{name}"
