"""Redis set back or lost after each step of a release with shards: nothing was seen and it goes on, or it was announced
and comes out the same, or it was published and is refused until a rebuild.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.scene import EVERYTHING, PATIENCE_S, Scene, said
from tests.fault.test_lost_state import restore, take_snapshot, wipe
from tests.support.services.table import Worker, await_that

_BEFORE = ("release.1:2", "shards.2:2", "shards.3:5", "shards.4:5", "shards.5:2", "shards.6.open:2")
_ANNOUNCED = ("shards.6:2", "shards.7.open:5", "shards.7:5", "shards.8.open:2")
_PUBLISHED = ("shards.8:2", "shards.9:5", "shards.10.part:2")
_FROZEN_AGAIN = "cause=announced"


@pytest.fixture
def clinic(kafka: str, redis_db: str, table: str, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(kafka, redis_db, tmp_path, table, **EVERYTHING, scale={"shards": 3})
    yield made
    made.close()


def _die_in_the_second_release(clinic: Scene, point: str) -> dict[bytes, bytes]:
    """A first release, and a worker that dies in the second; returns Redis as it was between the two."""
    clinic.fill(200)
    clinic.ask()
    dying = clinic.start(CRASH_AT=point)
    dying.await_log("release.applied", PATIENCE_S)
    clinic.await_served()
    old = take_snapshot(clinic)
    clinic.pour(150)
    clinic.ask()
    assert clinic.await_exit(dying) == -9, dying.log
    return old


def _go_on(clinic: Scene) -> Worker:
    """More happens, and the last release is about all of it."""
    worker = clinic.start()
    clinic.finish()
    clinic.pour(60)
    releases = clinic.finish()
    assert len(json.loads(releases[-1].manifest)["shards"]) == 3
    return worker


@pytest.mark.timeout(400)
@pytest.mark.parametrize("point", [*_BEFORE, *_ANNOUNCED])
def test_a_redis_set_back_before_a_release_was_published_makes_the_announced_one_or_any(
    clinic: Scene, point: str
) -> None:
    old = _die_in_the_second_release(clinic, point)
    clinic.pour(100)  # what ingest would have taken into the window, had nobody frozen it
    restore(clinic, old)
    worker = _go_on(clinic)
    assert (_FROZEN_AGAIN in worker.log) == (point in _ANNOUNCED), worker.log


@pytest.mark.timeout(400)
@pytest.mark.parametrize("point", _PUBLISHED)
def test_a_redis_set_back_behind_a_published_release_is_refused_until_it_is_rebuilt(clinic: Scene, point: str) -> None:
    old = _die_in_the_second_release(clinic, point)
    restore(clinic, old)
    _assert_refused(clinic)
    _rebuild(clinic)
    assert _FROZEN_AGAIN not in _go_on(clinic).log


@pytest.mark.timeout(400)
@pytest.mark.parametrize("point", ["shards.4:5", *_ANNOUNCED[:3], "shards.8:2"])
def test_a_redis_lost_in_a_release_is_rebuilt_and_the_announced_release_comes_out_the_same(
    clinic: Scene, point: str
) -> None:
    _die_in_the_second_release(clinic, point)
    clinic.pour(100)
    wipe(clinic)
    _assert_refused(clinic)
    _rebuild(clinic)
    worker = _go_on(clinic)
    assert (_FROZEN_AGAIN in worker.log) == (point in _ANNOUNCED), worker.log


@pytest.mark.timeout(400)
@pytest.mark.parametrize("point", ["shards.5", "shards.6", "shards.7:2"])
def test_a_redis_lost_before_anything_was_published_begins_anew_at_what_was_announced(
    clinic: Scene, point: str
) -> None:
    clinic.fill(200)
    clinic.ask()
    dying = clinic.start(CRASH_AT=point)
    assert clinic.await_exit(dying) == -9, dying.log
    clinic.pour(100)
    wipe(clinic)
    worker = _go_on(clinic)
    assert (_FROZEN_AGAIN in worker.log) == (point != "shards.5"), worker.log


@pytest.mark.timeout(400)
def test_a_redis_wiped_under_running_workers_ends_them_and_a_rebuild_brings_it_back(clinic: Scene) -> None:
    clinic.fill(200)
    clinic.ask()
    workers = [clinic.start(), clinic.start()]
    clinic.await_served()
    await_that(lambda: any("release.applied" in worker.log for worker in workers), PATIENCE_S)
    before = _state(clinic)
    wipe(clinic)
    for worker in workers:
        assert clinic.await_exit(worker) == 1, worker.log
        assert "shoal rebuild" in said(worker), worker.log
    _rebuild(clinic)
    assert _state(clinic) == before, "what was rebuilt is not what was lost"
    again = clinic.run("rebuild")
    assert (again.returncode, again.stdout.count("already")) == (0, 1), again.stderr
    _go_on(clinic)


@pytest.mark.timeout(400)
def test_a_shard_of_which_a_part_is_missing_is_refused(clinic: Scene) -> None:
    clinic.fill(200)
    clinic.ask()
    worker = clinic.start()
    clinic.await_served()
    worker.await_log("release.applied", PATIENCE_S)
    assert worker.stop() == 0
    with clinic.connect() as client:
        client.delete(next(client.scan_iter(match=f"{{shoal:{clinic.name}}}:shard:1:people:*")))
    _assert_refused(clinic)
    _rebuild(clinic)
    _go_on(clinic)


def _assert_refused(clinic: Scene) -> None:
    before, worker = len(clinic.releases()), clinic.start()
    assert clinic.await_exit(worker) == 1, worker.log
    assert "shoal rebuild" in said(worker), worker.log
    assert len(clinic.releases()) == before


def _rebuild(clinic: Scene) -> None:
    done = clinic.run("rebuild")
    assert done.returncode == 0, done.stderr
    assert "rebuilt" in done.stdout


def _state(clinic: Scene) -> dict[str, object]:
    """What Redis holds of the shards, and `meta` without when the table was begun."""
    with clinic.connect() as client:
        found: dict[str, object] = {}
        for key in clinic.keys:
            name = key.decode().partition("}:")[2]
            if name.startswith("shard"):
                found[name] = client.hgetall(key)
            elif name == "meta":
                found[name] = {field: value for field, value in client.hgetall(key).items() if field != b"created"}
        return found


@pytest.mark.timeout(400)
def test_a_record_left_out_after_its_release_was_announced_is_a_part_of_it_for_all_that(clinic: Scene) -> None:
    old = _die_in_the_second_release(clinic, "shards.7:5")
    restore(clinic, old)
    announced = [one for one in clinic.read(clinic.topics.releases, 0) if one.headers["kind"] == b"sealed"][-1]
    end = json.loads(announced.headers["offsets"])[0]
    before = next(one for one in clinic.read(clinic.topics.releases, 0) if one.headers["kind"] == b"manifest")
    assert end > json.loads(before.headers["offsets"])[0], "nothing is in the window"
    with clinic.connect() as client:
        client.sadd(f"{{shoal:{clinic.name}}}:skipped", f"0:{end - 1}")
    assert _FROZEN_AGAIN in _go_on(clinic).log
    with clinic.connect() as client:
        assert not client.exists(f"{{shoal:{clinic.name}}}:skipped")
