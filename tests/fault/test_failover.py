"""A Redis replica that is promoted in the middle of a release, with everything and with less than everything."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fault.scene import EVERYTHING, PATIENCE_S, Scene, said
from tests.support.services.any_redis import OtherRedis, SentinelServer
from tests.support.services.proxy import Proxy
from tests.support.services.table import Worker, await_that


class _Pair(NamedTuple):
    """A primary and its replica."""

    primary: OtherRedis
    replica: OtherRedis

    def settle(self, scene: Scene) -> Worker:
        """A worker that has made a first release, which both have."""
        worker = scene.start_ready()
        scene.settle()
        assert self.primary.client().execute_command("WAIT", 1, 5000) == 1
        return worker


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as opened:
        yield opened


@pytest.fixture
def pair(stack: contextlib.ExitStack, tmp_path: Path) -> _Pair:
    primary = stack.enter_context(OtherRedis(tmp_path / "primary"))
    replica = stack.enter_context(OtherRedis(tmp_path / "replica", [f"replicaof 127.0.0.1 {primary.port}"]))
    await_that(lambda: primary.client().info("replication")["connected_slaves"] == 1, PATIENCE_S)
    return _Pair(primary, replica)


@pytest.fixture
def make_scene(
    stack: contextlib.ExitStack, pair: _Pair, kafka: str, table: str, tmp_path: Path
) -> Callable[[str], Scene]:
    """A table whose workers are given this address. The test itself looks at the replica, which outlives the other."""

    def make(address: str) -> Scene:
        through = {"REDIS": address}
        scene = Scene(kafka, pair.replica.address, tmp_path, table, worker_settings=through, **EVERYTHING)
        stack.callback(scene.close)
        return scene

    return make


@pytest.mark.timeout(400)
@pytest.mark.parametrize("moment", [pytest.param("release.frozen", marks=pytest.mark.soak), "release.sealed"])
def test_a_replica_that_has_everything_goes_on_in_the_middle_of_a_release(
    stack: contextlib.ExitStack, pair: _Pair, make_scene: Callable[[str], Scene], tmp_path: Path, moment: str
) -> None:
    sentinel = stack.enter_context(SentinelServer(tmp_path / "sentinel", pair.primary, "ward"))
    asked = sentinel.client()
    await_that(lambda: len(asked.execute_command("SENTINEL REPLICAS", "ward")) == 1, PATIENCE_S)
    scene = make_scene(f"redis+sentinel://{sentinel.where}/ward/0")
    worker = pair.settle(scene)
    scene.pour()
    scene.ask()
    worker.await_log(moment, PATIENCE_S, count=2)
    pair.primary.kill()
    scene.pour()
    scene.finish()
    assert worker.stop() == 0, worker.log


@pytest.mark.timeout(400)
def test_a_replica_that_has_missed_a_published_release_is_refused_until_it_is_rebuilt(
    stack: contextlib.ExitStack, pair: _Pair, make_scene: Callable[[str], Scene]
) -> None:
    wire = stack.enter_context(Proxy(pair.primary.port))
    scene = make_scene(f"redis://127.0.0.1:{wire.port}/0")
    worker = pair.settle(scene)
    pair.replica.client().execute_command("REPLICAOF NO ONE")  # from here on it hears nothing
    scene.pour()
    scene.ask()
    scene.await_served()
    wire.target = pair.replica.port
    wire.heal(torn=True)
    scene.pour()
    scene.ask()
    assert scene.await_exit(worker) == 1, worker.log
    assert "only release 1" in said(worker)
    rebuilt = scene.run("rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr
    scene.start()
    scene.finish()
