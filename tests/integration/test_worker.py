"""The worker as a process: events in, releases out; what it refuses; what it says; what it never says."""

import json
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from deploy.local.ports import free_port
from tests.table import Table, await_that, insert


@pytest.fixture
def make(kafka: str, redis_url: str, tmp_path: Path, table: str) -> Iterator[Any]:
    made: list[Table] = []

    def _make(**changes: Any) -> Table:
        made.append(Table(kafka, redis_url, tmp_path, table, **changes))
        return made[-1]

    yield _make
    for one in made:
        one.close()


def mixture(start: int, count: int) -> list[Any]:
    """Inserts, and among them events that are rejected."""
    events: list[Any] = [insert(number) for number in range(start, start + count)]
    for place in range(0, count, 25):
        events.insert(place, {"op": "update", "id": f"nobody-{place}", "qid": {"age": 3}})
    return events


def test_every_event_is_in_a_release_or_a_dead_letter_once_and_restarts_change_nothing(make: Any) -> None:
    table = make()
    worker = table.start()
    worker.await_log("planner.ready")
    table.send(mixture(0, 400))
    table.send([b"junk", b"[]", b'{"op":"external"}'], partition=3)
    wishes: list[Any] = ["asthma", "", {"node": "lupus", "bound": 0.25}, {"node": None}, {"node": "*"}]
    table.send([{"op": "update", "id": f"p{n}", "guard": wish} for n, wish in enumerate(wishes * 3)])
    table.request(b'{"op":"release","at":"2026-01-01T00:00:00Z"}')
    table.await_releases(1)
    table.send([{"op": "delete", "id": f"p{number}"} for number in range(0, 400, 7)])
    table.send([{"op": "update", "id": f"p{n}", "guard": wish} for n, wish in enumerate(wishes, start=1)])
    assert worker.stop() == 0
    table.send(mixture(400, 100))
    table.request()
    table.start()
    found = table.await_releases(2)
    table.await_dead_letters(16 + 3 + 4)
    table.judge()
    assert json.loads(found[0].manifest)["published_at"] == "2026-01-01T00:00:00Z"
    assert json.loads(found[1].manifest)["published_at"] is None


def test_a_worker_killed_after_sealing_is_followed_by_one_that_publishes_the_sealed_bytes(make: Any) -> None:
    """Every other step is tried in tests/fault."""
    table = make()
    worker = table.start(CRASH_AT="release.6")
    worker.await_log("planner.ready")
    table.send(mixture(0, 200))
    table.request()
    assert worker.wait() == -signal.SIGKILL
    table.send([{"op": "delete", "id": f"p{number}"} for number in range(0, 200, 9)])
    table.request()
    table.start()
    table.await_releases(2)
    table.await_dead_letters(8)
    table.judge()


def test_two_workers_share_the_partitions_and_one_plans(make: Any) -> None:
    table = make()
    workers = [table.start(), table.start()]
    await_that(lambda: all("ingest.loaded" in worker.log for worker in workers), 40)
    table.send(mixture(0, 300))
    table.request()
    table.await_releases(1)
    planner = next(worker for worker in workers if "release.published" in worker.log)
    other = workers[1 - workers.index(planner)]
    assert sum(worker.log.count("release.published") for worker in workers) == 1
    planner.kill()
    table.send(mixture(300, 50))
    table.request()
    table.await_releases(2)
    assert "release.published" in other.log
    table.await_dead_letters(14)
    table.judge()


def test_a_worker_that_wakes_up_after_losing_everything_does_no_harm(make: Any) -> None:
    table = make()
    sleeper = table.start()
    sleeper.await_log("planner.ready")
    table.send(mixture(0, 100))
    table.request()
    table.await_releases(1)
    sleeper.process.send_signal(signal.SIGSTOP)
    other = table.start()
    other.await_log("planner.ready", 40)
    table.send(mixture(100, 100))
    table.request()
    table.await_releases(2)
    sleeper.process.send_signal(signal.SIGCONT)
    table.send(mixture(200, 100))
    table.request()
    table.await_releases(3)
    table.await_dead_letters(12)
    table.judge()
    assert sleeper.process.poll() is None, "it found out, and works on as the second one"


def test_events_that_came_to_the_wrong_partition_are_dead_letters(make: Any) -> None:
    table = make()
    table.start().await_log("planner.ready")
    table.send([insert(number) for number in range(60)])
    strangers = [insert(number) for number in range(60) if table.home(f"p{number}") != 0][:10]
    table.request()
    table.await_releases(1)
    table.send(strangers, partition=0)
    table.send([{"op": "update", "id": event["id"], "qid": {"age": 7}} for event in strangers], partition=0)
    table.request()
    table.await_releases(2)
    letters = table.await_dead_letters(20)
    assert letters.total() == 20
    table.judge()


def test_a_bad_trigger_is_a_dead_letter_and_makes_no_release(make: Any) -> None:
    table = make()
    table.start().await_log("planner.ready")
    table.send([insert(number) for number in range(20)])
    for value in (b"junk", b'{"op":"insert"}', b'{"op":"release","release":9}'):
        table.request(value)
    table.request()
    table.await_releases(1)
    letters = table.await_dead_letters(2)
    assert letters == {(table.topics.triggers, 0, 0): 1, (table.topics.triggers, 0, 1): 1}
    assert len(table.judge()) == 1


def test_clocks_make_releases(make: Any) -> None:
    table = make(release={"every_events": 50, "every_seconds": 5})
    worker = table.start()
    worker.await_log("planner.ready")
    table.send([insert(number) for number in range(60)])
    first = table.await_releases(1, 10)
    assert "cause=events" in worker.log
    assert json.loads(first[0].manifest)["published_at"] is not None
    table.await_releases(2, 15)
    assert "cause=seconds" in worker.log
    worker.stop()
    table.judge()


def test_a_missed_moment_fires_once(make: Any, redis_url: str) -> None:
    table = make(release={"at": "0 3 * * *"})
    worker = table.start()
    worker.await_log("planner.ready")
    assert worker.stop() == 0
    assert table.releases() == []
    with redis.Redis.from_url(redis_url) as client:
        three_days_ago = time.time() - 3 * 86_400
        client.hset(f"{{shoal:{table.name}}}:meta", "created", repr(three_days_ago))
    table.start()
    table.await_releases(1)
    time.sleep(2)
    assert len(table.releases()) == 1


def test_with_a_state_key_everything_works_the_same(make: Any) -> None:
    table = make()
    worker = table.start(STATE_KEY="kept elsewhere")
    worker.await_log("planner.ready")
    table.send(mixture(0, 100))
    table.request()
    table.await_releases(1)
    worker.kill()
    table.send(mixture(100, 100))
    table.request()
    table.start(STATE_KEY="kept elsewhere")
    table.await_releases(2)
    table.await_dead_letters(8)
    table.judge()


def test_redis_wiped_is_refused_and_rebuild_brings_it_back(make: Any, redis_url: str) -> None:
    table = make()
    worker = table.start()
    worker.await_log("planner.ready")
    table.send(mixture(0, 200))
    table.request()
    table.await_releases(1)
    table.send([{"op": "delete", "id": f"p{number}"} for number in range(0, 200, 9)])
    table.request(b'{"op":"release","at":"2026-02-03T04:05:06Z"}')
    published = table.await_releases(2)
    table.await_dead_letters(8)
    before = state_of(redis_url, table.name)
    wipe(redis_url, table.name)
    table.send([insert(900), b"junk"])
    assert worker.wait() == 1
    assert "shoal rebuild" in worker.log.splitlines()[-1]
    refused = table.start()
    assert refused.wait() == 1
    assert refused.log.strip().splitlines()[-1].startswith("shoal: Redis knows nothing of table")
    assert "Traceback" not in refused.log + worker.log
    rebuilt = table.run("rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert state_of(redis_url, table.name) == before
    assert "nothing is lost" not in rebuilt.stderr
    assert "already holds release 2" in table.run("rebuild").stdout
    table.start().await_log("planner.ready")
    table.request()
    after = table.await_releases(3)
    assert after[:2] == published
    table.await_dead_letters(9)
    table.judge()


def test_redis_set_back_is_refused_too(make: Any, redis_url: str) -> None:
    table = make()
    worker = table.start()
    worker.await_log("planner.ready")
    table.send(mixture(0, 100))
    table.request()
    table.await_releases(1)
    worker.await_log("release.applied")
    assert worker.stop() == 0
    with redis.Redis.from_url(redis_url) as client:
        copied = {key: client.dump(key) for key in client.scan_iter(match=f"{{shoal:{table.name}}}:*")}
        worker = table.start()
        worker.await_log("planner.ready")
        table.request()
        table.await_releases(2)
        worker.await_log("release.applied")
        worker.stop()
        wipe(redis_url, table.name)
        for key, value in copied.items():
            client.restore(key, 0, value)
    refused = table.start()
    assert refused.wait() == 1
    assert "only release 1" in refused.log
    assert table.run("rebuild").returncode == 0
    table.start().await_log("planner.ready")
    table.request()
    table.await_releases(3)
    table.judge()


def test_a_state_of_which_a_part_is_missing_is_refused_and_rebuilt(make: Any, redis_url: str) -> None:
    table = make()
    worker = table.start()
    worker.await_log("planner.ready")
    table.send(mixture(0, 100))
    table.request()
    table.await_releases(1)
    worker.await_log("release.applied")
    assert worker.stop() == 0
    before = state_of(redis_url, table.name)
    with redis.Redis.from_url(redis_url) as client:
        client.delete(next(client.scan_iter(match=f"{{shoal:{table.name}}}:people:*")))
    table.send([{"op": "delete", "id": f"p{number}"} for number in range(100)])
    refused = table.start()
    assert refused.wait() == 1
    assert refused.log.strip().splitlines()[-1].startswith("shoal: Redis lost a part of the state of table")
    assert "shoal rebuild" in refused.log
    assert table.run("rebuild").returncode == 0
    assert state_of(redis_url, table.name) == before
    table.start().await_log("planner.ready")
    table.request()
    table.await_releases(2)
    table.judge()


def test_a_redis_that_evicts_keys_is_refused_with_code_2(make: Any, redis_url: str) -> None:
    table = make()
    with redis.Redis.from_url(redis_url) as client:
        before = client.config_get("maxmemory-policy")["maxmemory-policy"]
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            refused = table.start()
            assert refused.wait() == 2
        finally:
            client.config_set("maxmemory-policy", before)
    assert "set its maxmemory-policy to noeviction" in refused.log.strip().splitlines()[-1]


def test_a_rebuild_under_another_secret_or_policy_is_refused_and_writes_nothing(make: Any, redis_url: str) -> None:
    table = make()
    worker = table.start()
    worker.await_log("planner.ready")
    table.send(mixture(0, 100))
    table.request()
    table.await_releases(1)
    worker.stop()
    wipe(redis_url, table.name)
    wrong = table.run("rebuild", KEY="another secret")
    assert wrong.returncode == 1, wrong.stderr
    assert "does not come out as it was published" in wrong.stderr
    policy = json.loads(table.policy_path.read_text())
    table.policy_path.write_text(json.dumps({**policy, "privacy": {"k": 4, "l": 2}}))
    wrong = table.run("rebuild")
    assert wrong.returncode == 2
    assert "another policy" in wrong.stderr
    assert state_of(redis_url, table.name) == {}


def test_a_table_begun_otherwise_is_refused_with_code_2(make: Any, kafka: str, redis_url: str) -> None:
    table = make()
    worker = table.start()
    worker.await_log("worker.start")
    assert worker.stop() == 0

    def is_refused(said: str, **settings: str) -> None:
        refused = table.start(**settings)
        assert refused.wait() == 2
        last = refused.log.strip().splitlines()[-1]
        assert last.startswith("shoal: ")
        assert said in last
        assert "Traceback" not in refused.log

    is_refused("another SHOAL_KEY", KEY="another secret")
    is_refused("another SHOAL_STATE_KEY", STATE_KEY="suddenly encrypted")
    policy = table.policy_path.read_text()
    table.policy_path.write_text(policy + "\n")
    is_refused("another policy")
    table.policy_path.write_text(policy)
    with redis.Redis.from_url(redis_url) as client:
        client.hset(f"{{shoal:{table.name}}}:meta", "format", "99")
    is_refused("format 99")


@pytest.mark.parametrize("missing", ["KAFKA", "REDIS"])
def test_a_service_that_cannot_be_reached_is_named_in_one_sentence(make: Any, missing: str) -> None:
    table = make()
    address = f"127.0.0.1:{free_port()}"
    settings = {"KAFKA": address} if missing == "KAFKA" else {"REDIS": f"redis://{address}/0"}
    worker = table.start(CONNECT_S="1", **settings)
    assert worker.wait() == 3
    lines = [line for line in worker.log.strip().splitlines() if line.startswith("shoal:")]
    assert len(lines) == 1
    assert missing.capitalize() in lines[0]
    assert "Traceback" not in worker.log


def test_the_web_views_say_who_it_is_and_whether_it_works(make: Any) -> None:
    table = make()
    port = free_port()
    worker = table.start(WEB_PORT=str(port))
    worker.await_log("planner.ready")
    table.send(mixture(0, 50))
    table.request()
    table.await_releases(1)
    assert ask(port, "health") == (200, {"status": "alive"})
    code, found = ask(port, "ready")
    assert code == 200
    assert (found["ready"], found["role"], found["release"], found["lag"]) == (True, "planner", 1, 0)
    assert found["partitions"] == [0, 1, 2, 3]


def test_nothing_of_a_person_appears_in_a_log_or_a_header(make: Any) -> None:
    table = make()
    worker = table.start(LOG_LEVEL="debug")
    worker.await_log("planner.ready")
    people = [insert(number, id=f"canary{number}") for number in range(60)]
    table.send(people)
    table.send([{"op": "insert", "id": "canary-bad", "canary-field": 1}, b'{"op":"canary', people[0]], partition=1)
    table.send([{**people[1], "id": "canary-x", "sensitive": ["canary-disease"]}])
    table.request(b'{"op":"canary-trigger"}')
    table.request()
    table.await_releases(1)
    table.await_dead_letters(4)
    worker.process.send_signal(signal.SIGTERM)
    worker.wait()
    assert "canary" not in worker.log
    for letter in table.read(table.topics.dead_letter, 0):
        ours = {
            name: letter.headers.get(name, b"") for name in ("reason", "field", "op", "topic", "partition", "offset")
        }
        assert b"canary" not in b"".join(ours.values())
    for release in table.releases():
        assert b"canary" not in release.manifest + b"".join(release.records) + b"".join(release.headers.values())


def ask(port: int, page: str) -> tuple[int, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5) as answer:
        return answer.status, json.load(answer)


def wipe(redis_url: str, table: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.delete(*client.scan_iter(match=f"{{shoal:{table}}}:*"))


def state_of(redis_url: str, table: str) -> dict[bytes, Any]:
    """People, groups and tree as they are stored."""
    with redis.Redis.from_url(redis_url) as client:
        found: dict[bytes, Any] = {
            key: client.hgetall(key)
            for key in client.scan_iter(match=f"{{shoal:{table}}}:*")
            if key.split(b"}:")[1].split(b":")[0] in (b"people", b"groups", b"tree")
        }
    return found
