"""Redis set back or lost after each step of a release with shards: nothing was seen and it goes on, or it was announced
and comes out the same, or it was published and is refused until a rebuild.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.fault.drills import Drills, Stage
from tests.fault.scene import EVERYTHING, PATIENCE_S, Scene, said
from tests.fault.test_lost_state import take_snapshot, wipe
from tests.support.services.table import Record, Worker, await_that

_BEFORE = ("release.1:2", "release.2:2", "release.3:5", "release.4:5", "release.5:2", "release.6.open:2")
_ANNOUNCED = ("release.6:2", "release.7.open:5", "release.7:5", "release.8.open:2")
_PUBLISHED = ("release.8:2", "release.9:5", "release.10.part:2", "release.10:2")
# What counts is what is on the topics: Redis is what it was between two releases, or empty, whatever it was when the
# worker died. Nothing is sent up to step 5, and steps 9 and 10 write to Redis alone. So in CI the first and the last
# point with the same topics stand for those between, which `make soak` tries.
_BETWEEN = {"release.2:2", "release.3:5", "release.4:5", "release.9:5", "release.10.part:2"}
_FROZEN_AGAIN = "cause=announced"
_AT_ONCE = 3


@pytest.fixture
def clinic(kafka: str, redis_db: str, table: str, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(kafka, redis_db, tmp_path, table, **EVERYTHING, scale={"shards": 3})
    yield made
    made.close()


def _restore(clinic: Scene, old: Mapping[bytes, bytes]) -> None:
    """Set the table's keys back while no worker runs; the database is not this table's own."""
    clinic.wipe()
    with clinic.connect() as client:
        for key, value in old.items():
            client.restore(key, 0, value)


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


def _set_back_in_time(clinic: Scene, point: str) -> None:
    old = _die_in_the_second_release(clinic, point)
    clinic.pour(100)  # what ingest would have taken into the window, had nobody frozen it
    _restore(clinic, old)
    worker = _go_on(clinic)
    assert (_FROZEN_AGAIN in worker.log) == (point in _ANNOUNCED), worker.log


def _set_back_too_far(clinic: Scene, point: str) -> None:
    old = _die_in_the_second_release(clinic, point)
    _restore(clinic, old)
    _assert_refused(clinic)
    _rebuild(clinic)
    assert _FROZEN_AGAIN not in _go_on(clinic).log


def _lost(clinic: Scene, point: str) -> None:
    _die_in_the_second_release(clinic, point)
    clinic.pour(100)
    clinic.wipe()
    _assert_refused(clinic)
    _rebuild(clinic)
    worker = _go_on(clinic)
    assert (_FROZEN_AGAIN in worker.log) == (point in _ANNOUNCED), worker.log


def _lost_at_first(clinic: Scene, point: str) -> None:
    clinic.fill(200)
    clinic.ask()
    dying = clinic.start(CRASH_AT=point)
    assert clinic.await_exit(dying) == -9, dying.log
    clinic.pour(100)
    clinic.wipe()
    worker = _go_on(clinic)
    assert (_FROZEN_AGAIN in worker.log) == (point != "release.5"), worker.log


def _set_back_within(clinic: Scene, points: str) -> None:
    """Two workers die in the second release, one after the other; Redis is set back to where the first did."""
    first, second = points.split(" to ")[::-1]
    _die_in_the_second_release(clinic, first)
    middle = take_snapshot(clinic)
    dying = clinic.start(CRASH_AT=second)
    assert clinic.await_exit(dying) == -9, dying.log
    announced = [one.value for one in _announced(clinic) if one.value and json.loads(one.value)["release"] == 2]
    clinic.pour(100)
    _restore(clinic, middle)
    is_published = len(clinic.releases()) == 2
    if is_published and first not in ("release.5:2", "release.7:5"):
        _assert_refused(clinic)
        _rebuild(clinic)
    _go_on(clinic)
    assert [one.manifest for one in clinic.releases()[1:2]] == announced, "another release was announced before"
    assert len(_announced(clinic)) == len(clinic.releases()), "a release was announced twice"


_DRILLS: dict[str, tuple[Callable[[Scene, str], None], tuple[str, ...]]] = {
    "a Redis set back before a release was published makes the announced one, or any": (
        _set_back_in_time,
        (*_BEFORE, *_ANNOUNCED),
    ),
    "a Redis set back behind a published release is refused until it is rebuilt": (_set_back_too_far, _PUBLISHED),
    "a Redis set back within a release goes on, and publishes what was announced": (
        _set_back_within,
        tuple(
            f"{later} to {earlier}"
            for earlier, later in (
                ("release.1:2", "release.6"),
                ("release.2:2", "release.7:2"),
                ("release.3:5", "release.8.open"),
                ("release.4:5", "release.6"),
                ("release.4:5", "release.8"),
                ("release.5:2", "release.6"),
                ("release.5:2", "release.7:2"),
                ("release.5:2", "release.9:2"),
                ("release.5:2", "release.10"),
                ("release.7:5", "release.8"),
                ("release.7:5", "release.10.part"),
            )
        ),
    ),
    "a Redis lost is rebuilt, and the announced release comes out the same": (
        _lost,
        (*_BEFORE, *_ANNOUNCED, *_PUBLISHED),
    ),
    "a Redis lost before anything was published begins anew at what was announced": (
        _lost_at_first,
        ("release.5", "release.6", "release.7:2"),
    ),
}


@pytest.fixture(scope="module")
def drills(stage: Stage) -> Iterator[Drills]:
    def drill(what: str, point: str) -> None:
        with stage.scene(point, **EVERYTHING, scale={"shards": 3}) as scene:
            _DRILLS[what][0](scene, point)

    with stage.started(("what", "point"), drill, _AT_ONCE) as found:
        yield found


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("what", "point"),
    [
        pytest.param(what, point, marks=[pytest.mark.soak] if point in _BETWEEN else [])
        for what, (_, points) in _DRILLS.items()
        for point in points
    ],
)
def test_after_a_step_of_a_release(drills: Drills, what: str, point: str) -> None:
    drills[what, point].result()


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


def _announced(clinic: Scene) -> list[Record]:
    return [one for one in clinic.read(clinic.topics.releases, 0) if one.headers.get("kind") == b"sealed"]


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
    old = _die_in_the_second_release(clinic, "release.7:5")
    _restore(clinic, old)
    announced = _announced(clinic)[-1]
    end = json.loads(announced.headers["offsets"])[0]
    before = next(one for one in clinic.read(clinic.topics.releases, 0) if one.headers.get("kind") == b"manifest")
    assert end > json.loads(before.headers["offsets"])[0], "nothing is in the window"
    with clinic.connect() as client:
        client.sadd(f"{{shoal:{clinic.name}}}:skipped", f"0:{end - 1}")
    worker = clinic.start()
    clinic.await_served()
    assert _FROZEN_AGAIN in worker.log
    assert clinic.releases()[1].manifest == announced.value
    worker.await_log("release.applied", PATIENCE_S)
    with clinic.connect() as client:
        assert not client.exists(f"{{shoal:{clinic.name}}}:skipped")
