"""Two sets of workers on one table by mistake, and settings that are crossed: never two versions, and a sentence."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from shoal.streams.kafka.topics import Topics
from tests.fault.scene import EVERYTHING, PATIENCE_S, Scene, said
from tests.support.services.any_redis import OtherRedis
from tests.support.services.frail import Frail
from tests.support.services.table import Worker, await_that, inserts

OTHER_REDIS = "into another Redis"


@pytest.fixture(scope="module")
def other_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with OtherRedis(tmp_path_factory.mktemp("other")) as server:
        yield server.address


def _end(worker: Worker) -> tuple[int, str]:
    await_that(lambda: worker.process.poll() is not None, PATIENCE_S, worker._log)
    return worker.wait(), said(worker)


@pytest.mark.timeout(400)
def test_workers_with_another_redis_are_refused_before_and_after_the_first_release(
    scene: Scene, other_redis: str
) -> None:
    ours = scene.start_ready()
    code, sentence = _end(scene.start(REDIS=other_redis, SESSION_S="1"))
    assert (code, OTHER_REDIS in sentence) == (2, True), sentence
    scene.settle()
    code, sentence = _end(scene.start(REDIS=other_redis))  # where the first one has begun the table
    assert (code, "release 1 is published" in sentence) == (1, True), sentence
    scene.pour()
    scene.finish()
    assert ours.stop() == 0, ours.log


@pytest.mark.soak  # it takes ten seconds before they look at each other
@pytest.mark.timeout(400)
def test_two_sets_of_workers_that_start_at_once_publish_one_version_and_one_of_them_says_why_it_ends(
    scene: Scene, other_redis: str
) -> None:
    """Neither sees the other when it looks. They share the partitions, and no release can be made until one ends."""
    workers = [scene.start(REDIS=redis) for redis in (scene.redis, other_redis)]
    scene.pour()
    scene.ask()
    await_that(lambda: any(worker.process.poll() is not None for worker in workers), PATIENCE_S)
    ends = [_end(worker) for worker in workers if worker.process.poll() is not None]
    assert all(code == 2 and OTHER_REDIS in sentence for code, sentence in ends), ends
    scene.pour()
    if len(ends) == 2:  # each saw the other
        scene.start()
    scene.finish()


@pytest.mark.timeout(400)
def test_workers_with_another_kafka_are_refused_before_their_events_join_a_window(
    scene: Scene, frail: Frail, tmp_path: Path
) -> None:
    """Before the first release the two releases topics do not differ. The ids of the events topics do."""
    ours = scene.start_ready()
    scene.pour()
    (tmp_path / "there").mkdir()
    there = Scene(frail.kafka.address, scene.redis, tmp_path / "there", scene.name, **EVERYTHING)
    there.send(inserts(0, 50))
    code, sentence = _end(there.start())
    assert (code, "another events topic" in sentence) == (2, True), sentence
    scene.finish()
    assert ours.stop() == 0, ours.log


@pytest.mark.timeout(400)
def test_an_events_topic_that_was_made_again_is_refused_though_it_has_grown_past_the_stored_offsets(
    scene: Scene,
) -> None:
    worker = scene.start_ready()
    scene.send(inserts(0, 60))
    scene.release()
    admin = AdminClient({"bootstrap.servers": scene.kafka})
    assert worker.stop() == 0
    events = Topics(scene.name).events
    admin.delete_topics([events])[events].result(30)
    await_that(lambda: events not in admin.list_topics(timeout=10).topics, PATIENCE_S)
    scene.run("produce", str(scene.policy_path), "/dev/null")  # which makes the topic
    scene.send(inserts(100, 300))
    code, sentence = _end(scene.start())
    assert (code, "another events topic" in sentence) == (2, True), sentence
    refused = scene.run("rebuild")
    assert refused.returncode == 1, refused.stderr
    assert "does not come out" in refused.stderr
