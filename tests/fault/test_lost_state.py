"""Redis that forgot everything, or a part, or the last minutes: nothing is published until it has been rebuilt."""

import pytest

from tests.fault.scene import PATIENCE_S, Scene, said
from tests.support.services.table import Worker

Snapshot = dict[bytes, bytes]


@pytest.mark.timeout(400)
def test_workers_whose_redis_was_wiped_refuse_and_a_rebuild_brings_it_back(scene: Scene) -> None:
    running = _publish(scene)
    before = _state(scene)
    wipe(scene)
    scene.pour(30)
    scene.ask()
    _assert_refused(scene, running)
    assert not scene.keys, "a worker that refused left something in Redis"
    refused = [scene.start(), scene.start()]  # two: one must not take the other's refusal for a beginning
    for worker in refused:
        _assert_refused(scene, worker)
    assert not scene.keys, "a worker that refused left something in Redis"
    _rebuild(scene)
    assert _state(scene) == before, "what was rebuilt is not what was lost"
    again = scene.run("rebuild")
    assert (again.returncode, again.stdout.count("already")) == (0, 1), again.stderr
    scene.start()
    scene.pour(40)
    scene.finish()


@pytest.mark.timeout(400)
def test_a_redis_set_back_before_the_last_release_or_without_its_meta_is_refused_and_rebuilt(scene: Scene) -> None:
    worker = _publish(scene)
    old = take_snapshot(scene)
    scene.pour(60)
    scene.ask()
    scene.await_served()
    restore(scene, old)
    scene.pour(30)
    scene.ask()
    _assert_refused(scene, worker)
    _rebuild(scene)
    worker = scene.start()
    scene.await_served()
    with scene.connect() as client:
        client.delete(f"{{shoal:{scene.name}}}:meta")
    scene.pour(30)
    scene.ask()
    _assert_refused(scene, worker)
    _rebuild(scene)
    scene.start()
    scene.finish()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("is_running", [True, False])
def test_a_redis_set_back_within_a_window_reads_the_events_again_and_sends_no_letter_twice(
    scene: Scene, is_running: bool
) -> None:
    worker = _publish(scene)
    old = take_snapshot(scene)
    scene.pour(100)  # with bad ones among them
    scene.await_dead_letters(scene.mixture.counts["bad"], PATIENCE_S)
    if not is_running:
        assert worker.stop() == 0, worker.log
    restore(scene, old)
    if not is_running:
        worker = scene.start()
    scene.pour(40)
    scene.finish()
    assert worker.process.poll() is None, worker.log


def wipe(scene: Scene) -> None:
    """FLUSHDB: the database is the test's own."""
    with scene.connect() as client:
        client.flushdb()


def take_snapshot(scene: Scene) -> Snapshot:
    """Everything of the table as it is at one moment."""
    with scene.connect() as client:
        while True:
            keys = scene.keys
            pipeline = client.pipeline(transaction=True)
            for key in keys:
                pipeline.dump(key)
            values = pipeline.execute()
            if None not in values and keys == scene.keys:
                return dict(zip(keys, values, strict=True))


def restore(scene: Scene, snapshot: Snapshot) -> None:
    """Set the database back, all of it at once, as restoring a backup does."""
    with scene.connect() as client:
        pipeline = client.pipeline(transaction=True)
        pipeline.flushdb()
        for key, value in snapshot.items():
            pipeline.restore(key, 0, value)
        pipeline.execute()


def _publish(scene: Scene) -> Worker:
    """A worker with two releases behind it and nothing left to do."""
    worker = scene.start()
    for _ in range(2):
        scene.pour(80)
        scene.ask()
        scene.await_served()
    scene.await_dead_letters(scene.mixture.counts["bad"], PATIENCE_S)
    worker.await_log("release.applied", PATIENCE_S, count=2)
    return worker


def _assert_refused(scene: Scene, worker: Worker) -> None:
    before = len(scene.releases())
    assert scene.await_exit(worker) == 1, worker.log
    assert "shoal rebuild" in said(worker), worker.log
    assert len(scene.releases()) == before


def _rebuild(scene: Scene) -> None:
    done = scene.run("rebuild")
    assert done.returncode == 0, done.stderr
    assert "rebuilt" in done.stdout


def _state(scene: Scene) -> dict[str, object]:
    """What Redis holds of the table's state and releases, without who works on it and when it began."""
    with scene.connect() as client:
        kinds = ("people:", "groups:", "tree", "cliques", "external", "signatures", "lasting:", "bonds")
        found: dict[str, object] = {}
        for key in scene.keys:
            name = key.decode().partition("}:")[2]
            if name.startswith(kinds):
                found[name] = client.hgetall(key)
            elif name == "meta":
                found[name] = {field: value for field, value in client.hgetall(key).items() if field != b"created"}
    return found
