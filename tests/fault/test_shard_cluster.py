"""Several tables with shards on a Redis Cluster whose nodes fail over, or go away and come back, within a release."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.crc import key_slot

from shoal.streams.store.finder import SlotFinder
from tests.fault.scene import EVERYTHING, PATIENCE_S, Scene
from tests.integration.replayed import assert_a_replay_makes_the_same
from tests.support.services.any_redis import OtherRedis, add_replica, await_primary, cluster_port, join
from tests.support.services.table import Worker, await_that

SHARDS, NODES, WORKERS = 3, 3, 2
_AWAY_S = 4.0  # longer than the nodes wait for one another


class ClusterScene(Scene):
    """A table on a Cluster."""

    nodes: list[tuple[str, int]]
    team: list[Worker]

    @property
    def prefix(self) -> bytes:
        return f"{{shoal:{self.name}}}:".encode()

    def connect(self) -> "Redis":
        host, port = asyncio.run(SlotFinder(self.nodes, self.prefix, {}).find())
        return Redis(host=host, port=port)

    def said(self, text: str) -> int:
        """How often the workers said something."""
        return sum(worker.log.count(text) for worker in self.team)


def _slot(name: str) -> int:
    return key_slot(f"{{shoal:{name}}}:".encode())


def _named(table: str, node: int) -> str:
    """A name of a table that lives on that node."""
    names = (f"{table}-{number}" for number in range(1000))
    return next(name for name in names if NODES * _slot(name) // 16_384 == node)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[list[OtherRedis], list[OtherRedis]]]:
    """Three primaries, and replicas of all but the second."""
    enabled = ["cluster-enabled yes", "cluster-node-timeout 1500", "cluster-replica-validity-factor 0"]
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(OtherRedis(tmp_path / f"node-{number}", enabled, cluster_port()))
            for number in range(NODES + 2)
        ]
        primaries, replicas = started[:NODES], started[NODES:]
        join(primaries)
        for replica, primary in zip(replicas, (primaries[0], primaries[2]), strict=True):
            add_replica(replica, primary, primaries)
        yield primaries, replicas


def _hand_over(primaries: list[OtherRedis], replicas: list[OtherRedis]) -> None:
    """An operator lets the first node and its replica change places; nothing is lost."""
    heir = next(node for node in (replicas[0], primaries[0]) if node.client().info("replication")["role"] == "slave")
    heir.client().execute_command("CLUSTER FAILOVER")
    await_primary(heir)


def _go_away_and_come_back(primaries: list[OtherRedis], replicas: list[OtherRedis]) -> None:
    """The second node has no replica: its tables wait, and so do the others, for a Cluster that is whole."""
    primaries[1].kill()
    time.sleep(_AWAY_S)
    primaries[1].restart()


def _die_for_good(primaries: list[OtherRedis], replicas: list[OtherRedis]) -> None:
    """The third node dies, and the others vote for its replica. What it had acknowledged a moment ago may be lost."""
    primaries[2].kill()
    await_primary(replicas[1])


_TROUBLES: tuple[tuple[str, Callable[[list[OtherRedis], list[OtherRedis]], None]], ...] = (
    ("shard.gather", _hand_over),
    ("shard.plan", _go_away_and_come_back),
    ("shard.plan", _die_for_good),
    ("release.announced", _hand_over),
    ("shard.send", _go_away_and_come_back),
)


@pytest.mark.timeout(900)
def test_tables_with_shards_on_a_cluster_make_what_a_replay_makes_whatever_happens_to_its_nodes(
    nodes: tuple[list[OtherRedis], list[OtherRedis]], kafka: str, table: str, tmp_path: Path
) -> None:
    primaries, replicas = nodes
    url = f"redis+cluster://127.0.0.1:9,{primaries[0].where},{primaries[1].where},{primaries[2].where}"
    with contextlib.ExitStack() as stack:
        tables = []
        for number in range(NODES):
            name = _named(table, number)
            made = ClusterScene(kafka, url, tmp_path, name, seed=number, **EVERYTHING, scale={"shards": SHARDS})
            made.nodes = [("127.0.0.1", node.port) for node in (*primaries, *replicas)]
            stack.callback(made.close)
            made.team = [made.start() for _ in range(WORKERS)]
            made.fill(200)
            made.ask()
            tables.append(made)
        for made in tables:
            made.await_served()
        _assert_each_in_one_slot(tables, primaries)
        for moment, trouble in _TROUBLES:
            said = [made.said(moment) for made in tables]
            for made in tables:
                made.pour(100)
                made.ask()
            await_that(
                lambda said=said, moment=moment: any(
                    made.said(moment) > before for made, before in zip(tables, said, strict=True)
                ),
                PATIENCE_S,
                *(worker._log for made in tables for worker in made.team),
                pause_s=0.005,
            )
            trouble(primaries, replicas)
            for made in tables:
                made.await_served()
        for made in tables:
            assert len(made.finish()) == len(_TROUBLES) + 2
            assert_a_replay_makes_the_same(made)
            assert all(worker.stop() == 0 for worker in made.team)


def _assert_each_in_one_slot(tables: list[ClusterScene], primaries: list[OtherRedis]) -> None:
    for made, node in zip(tables, primaries, strict=True):
        client = node.client()
        keys = list(client.scan_iter(match="*", count=10_000))
        assert len(keys) > 50
        assert all(key.startswith(made.prefix) for key in keys), "another table's key is on this node"
        assert {key_slot(key) for key in keys} == {_slot(made.name)}
