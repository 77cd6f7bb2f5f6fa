"""A Redis replica that is promoted in the middle of a release, with everything and with less than everything."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fault.scene import EVERYTHING, PATIENCE_S, Scene, said
from tests.support.services.any_redis import OtherRedis, SentinelServer
from tests.support.services.proxy import Proxy
from tests.support.services.table import await_that


class _Watched(NamedTuple):
    """A primary, its replica behind a wire, and a Sentinel that makes the replica primary when the other is gone."""

    scene: Scene
    primary: OtherRedis
    replica: OtherRedis
    wire: Proxy

    def await_replica(self) -> None:
        assert self.primary.client().execute_command("WAIT", 1, 5000) == 1


@pytest.fixture
def watched(kafka: str, table: str, tmp_path: Path) -> Iterator[_Watched]:
    with contextlib.ExitStack() as stack:
        primary = stack.enter_context(OtherRedis(tmp_path / "primary"))
        wire = stack.enter_context(Proxy(primary.port))
        replica = stack.enter_context(OtherRedis(tmp_path / "replica", [f"replicaof 127.0.0.1 {wire.port}"]))
        # A Sentinel asks for replicas every ten seconds, and first as it starts.
        await_that(lambda: primary.client().info("replication")["connected_slaves"] == 1, PATIENCE_S)
        sentinel = stack.enter_context(SentinelServer(tmp_path / "sentinel", primary, "ward"))
        asked = sentinel.client()
        await_that(lambda: len(asked.execute_command("SENTINEL REPLICAS", "ward")) == 1, PATIENCE_S)
        address = {"REDIS": f"redis+sentinel://{sentinel.where}/ward/0"}
        # The scene itself looks at the replica, which outlives the other.
        scene = Scene(kafka, replica.address, tmp_path, table, worker_settings=address, **EVERYTHING)
        stack.callback(scene.close)
        yield _Watched(scene, primary, replica, wire)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("moment", [pytest.param("release.frozen", marks=pytest.mark.soak), "release.sealed"])
def test_a_replica_that_has_everything_goes_on_in_the_middle_of_a_release(watched: _Watched, moment: str) -> None:
    scene = watched.scene
    worker = scene.start_ready()
    scene.settle()
    watched.await_replica()
    scene.pour()
    scene.ask()
    worker.await_log(moment, PATIENCE_S, count=2)
    watched.primary.kill()
    scene.pour()
    scene.finish()
    assert worker.stop() == 0, worker.log


@pytest.mark.timeout(400)
def test_a_replica_that_has_missed_a_published_release_is_refused_until_it_is_rebuilt(watched: _Watched) -> None:
    scene = watched.scene
    worker = scene.start_ready()
    scene.settle()
    watched.await_replica()
    watched.wire.cut()
    scene.pour()
    scene.ask()
    scene.await_served()
    watched.primary.kill()
    assert scene.await_exit(worker) == 1, worker.log
    assert "only release 1" in said(worker)
    assert "shoal rebuild" in said(worker)
    rebuilt = scene.run("rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr
    scene.start()
    scene.pour()
    scene.finish()
