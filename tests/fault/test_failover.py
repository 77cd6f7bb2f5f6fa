"""A Redis replica that is promoted in the middle of a release, with everything and with less than everything."""

import contextlib
from pathlib import Path

import pytest

from tests.fault.scene import EVERYTHING, PATIENCE_S, Scene, said
from tests.support.services.any_redis import OtherRedis, SentinelServer
from tests.support.services.proxy import Proxy
from tests.support.services.table import await_that


def _pair(stack: contextlib.ExitStack, folder: Path) -> tuple[OtherRedis, OtherRedis]:
    """A primary and its replica."""
    primary = stack.enter_context(OtherRedis(folder / "primary"))
    replica = stack.enter_context(OtherRedis(folder / "replica", [f"replicaof 127.0.0.1 {primary.port}"]))
    await_that(lambda: primary.client().info("replication")["connected_slaves"] == 1, PATIENCE_S)
    return primary, replica


@pytest.mark.timeout(400)
@pytest.mark.parametrize("moment", [pytest.param("release.frozen", marks=pytest.mark.soak), "release.sealed"])
def test_a_replica_that_has_everything_goes_on_in_the_middle_of_a_release(
    kafka: str, table: str, tmp_path: Path, moment: str
) -> None:
    with contextlib.ExitStack() as stack:
        primary, replica = _pair(stack, tmp_path)
        sentinel = stack.enter_context(SentinelServer(tmp_path / "sentinel", primary, "ward"))
        asked = sentinel.client()
        await_that(lambda: len(asked.execute_command("SENTINEL REPLICAS", "ward")) == 1, PATIENCE_S)
        # The scene itself looks at the replica, which outlives the other.
        through = {"REDIS": f"redis+sentinel://{sentinel.where}/ward/0"}
        scene = Scene(kafka, replica.address, tmp_path, table, worker_settings=through, **EVERYTHING)
        stack.callback(scene.close)
        worker = scene.start_ready()
        scene.settle()
        assert primary.client().execute_command("WAIT", 1, 5000) == 1
        scene.pour()
        scene.ask()
        worker.await_log(moment, PATIENCE_S, count=2)
        primary.kill()
        scene.pour()
        scene.finish()
        assert worker.stop() == 0, worker.log


@pytest.mark.timeout(400)
def test_a_replica_that_has_missed_a_published_release_is_refused_until_it_is_rebuilt(
    kafka: str, table: str, tmp_path: Path
) -> None:
    with contextlib.ExitStack() as stack:
        primary, replica = _pair(stack, tmp_path)
        wire = stack.enter_context(Proxy(primary.port))
        through = {"REDIS": f"redis://127.0.0.1:{wire.port}/0"}
        scene = Scene(kafka, replica.address, tmp_path, table, worker_settings=through, **EVERYTHING)
        stack.callback(scene.close)
        worker = scene.start_ready()
        scene.settle()
        assert primary.client().execute_command("WAIT", 1, 5000) == 1
        replica.client().execute_command("REPLICAOF NO ONE")  # from here on it hears nothing
        scene.pour()
        scene.ask()
        scene.await_served()
        wire.target = replica.port
        wire.heal(torn=True)
        scene.pour()
        scene.ask()
        assert scene.await_exit(worker) == 1, worker.log
        assert "only release 1" in said(worker)
        rebuilt = scene.run("rebuild")
        assert rebuilt.returncode == 0, rebuilt.stderr
        scene.start()
        scene.finish()
