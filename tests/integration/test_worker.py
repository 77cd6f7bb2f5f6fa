"""The worker as a process: events in, releases out; what it refuses; what it says; what it never says."""

import json
import signal
import time
import urllib.request
from typing import Any

import pytest

from deploy.local.ports import free_port
from tests.support.services.table import Make, await_that, insert, inserts


def test_every_event_is_in_a_release_or_a_dead_letter_once_and_restarts_change_nothing(make: Make) -> None:
    table = make()
    worker = table.start_planner()
    table.send(inserts(0, 400))
    table.send([b"junk", b"[]", b'{"op":"external"}'], partition=3)
    wishes: list[Any] = ["asthma", "", {"node": "lupus", "bound": 0.25}, {"node": None}, {"node": "*"}]
    table.send([{"op": "update", "id": f"p{n}", "guard": wish} for n, wish in enumerate(wishes * 3)])
    table.release(b'{"op":"release","at":"2026-01-01T00:00:00Z"}')
    table.send([{"op": "delete", "id": f"p{number}"} for number in range(0, 400, 7)])
    table.send([{"op": "update", "id": f"p{n}", "guard": wish} for n, wish in enumerate(wishes, start=1)])
    assert worker.stop() == 0
    table.send(inserts(400, 100))
    table.request()
    table.start()
    found = table.await_releases(2)
    table.await_dead_letters(16 + 3 + 4)
    table.judge()
    assert json.loads(found[0].manifest)["published_at"] == "2026-01-01T00:00:00Z"
    assert json.loads(found[1].manifest)["published_at"] is None


def test_a_worker_killed_after_sealing_is_followed_by_one_that_publishes_what_was_sealed(make: Make) -> None:
    """Every other step is tried in tests/fault."""
    table = make()
    worker = table.start(CRASH_AT="release.5")
    worker.await_log("planner.ready")
    table.send(inserts(0, 200))
    table.request()
    assert worker.wait() == -signal.SIGKILL
    table.send([{"op": "delete", "id": f"p{number}"} for number in range(0, 200, 9)])
    table.request()
    table.start()
    table.await_releases(2)
    table.await_dead_letters(8)
    table.judge()


def test_two_workers_share_the_partitions_and_one_plans(make: Make) -> None:
    table = make()
    workers = [table.start(), table.start()]
    await_that(lambda: all("ingest.loaded" in worker.log for worker in workers), 40)
    table.send(inserts(0, 300))
    table.release()
    planner = next(worker for worker in workers if "release.published" in worker.log)
    other = workers[1 - workers.index(planner)]
    assert sum(worker.log.count("release.published") for worker in workers) == 1
    planner.kill()
    table.send(inserts(300, 50))
    table.release()
    assert "release.published" in other.log
    table.await_dead_letters(14)
    table.judge()


def test_a_worker_that_wakes_up_after_losing_everything_does_no_harm(make: Make) -> None:
    table = make()
    sleeper = table.start()
    sleeper.await_log("planner.ready")
    table.send(inserts(0, 100))
    table.release()
    sleeper.process.send_signal(signal.SIGSTOP)
    other = table.start()
    other.await_log("planner.ready", 40)
    table.send(inserts(100, 100))
    table.release()
    sleeper.process.send_signal(signal.SIGCONT)
    table.send(inserts(200, 100))
    table.release()
    table.await_dead_letters(12)
    table.judge()
    assert sleeper.process.poll() is None, "it found out, and works on as the second one"


def test_events_that_came_to_the_wrong_partition_are_dead_letters(make: Make) -> None:
    table = make()
    table.start_planner()
    table.send([insert(number) for number in range(60)])
    strangers = [insert(number) for number in range(60) if table.home(f"p{number}") != 0][:10]
    table.release()
    table.send(strangers, partition=0)
    table.send([{"op": "update", "id": event["id"], "qid": {"age": 7}} for event in strangers], partition=0)
    table.release()
    letters = table.await_dead_letters(20)
    assert letters.total() == 20
    table.judge()


def test_a_bad_trigger_is_a_dead_letter_and_makes_no_release(make: Make) -> None:
    table = make()
    table.start_planner()
    table.send([insert(number) for number in range(20)])
    for value in (b"junk", b'{"op":"insert"}', b'{"op":"release","release":9}'):
        table.request(value)
    table.release()
    letters = table.await_dead_letters(2)
    assert letters == {(table.topics.triggers, 0, 0): 1, (table.topics.triggers, 0, 1): 1}
    assert len(table.judge()) == 1


def test_clocks_make_releases(make: Make) -> None:
    table = make(release={"every_events": 50, "every_seconds": 5})
    worker = table.start_planner()
    table.send([insert(number) for number in range(60)])
    first = table.await_releases(1, 10)
    assert "cause=events" in worker.log
    assert json.loads(first[0].manifest)["published_at"] is not None
    table.await_releases(2, 15)
    assert "cause=seconds" in worker.log
    worker.stop()
    table.judge()


def test_a_missed_moment_fires_once(make: Make, redis_url: str) -> None:
    table = make(release={"at": "0 3 * * *"})
    worker = table.start_planner()
    assert worker.stop() == 0
    assert table.releases() == []
    with table.connect() as client:
        three_days_ago = time.time() - 3 * 86_400
        client.hset(f"{{shoal:{table.name}}}:meta", "created", repr(three_days_ago))
    table.start()
    table.await_releases(1)
    time.sleep(2)
    assert len(table.releases()) == 1


def test_with_a_state_key_everything_works_the_same(make: Make) -> None:
    table = make()
    worker = table.start(STATE_KEY="kept in another place")
    worker.await_log("planner.ready")
    table.send(inserts(0, 100))
    table.release()
    worker.kill()
    table.send(inserts(100, 100))
    table.request()
    table.start(STATE_KEY="kept in another place")
    table.await_releases(2)
    table.await_dead_letters(8)
    table.judge()


def test_a_redis_that_evicts_keys_is_refused_with_code_2(make: Make, redis_url: str) -> None:
    table = make()
    with table.connect() as client:
        before = client.config_get("maxmemory-policy")["maxmemory-policy"]
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            refused = table.start()
            assert refused.wait() == 2
        finally:
            client.config_set("maxmemory-policy", before)
    assert "set its maxmemory-policy to noeviction" in refused.log.strip().splitlines()[-1]


def test_a_table_begun_otherwise_is_refused_with_code_2(make: Make, kafka: str, redis_url: str) -> None:
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

    is_refused("another SHOAL_KEY", KEY="another secret of the tests")
    is_refused("is not encrypted", STATE_KEY="suddenly encrypted it is")
    policy = table.policy_path.read_text()
    table.policy_path.write_text(json.dumps({**json.loads(policy), "privacy": {"k": 99, "l": 2}}))
    is_refused("another policy")
    table.policy_path.write_text(policy)
    with table.connect() as client:
        client.hset(f"{{shoal:{table.name}}}:meta", "format", "99")
    is_refused("format 99")


@pytest.mark.parametrize("missing", ["KAFKA", "REDIS"])
def test_a_service_that_cannot_be_reached_is_named_in_one_sentence(make: Make, missing: str) -> None:
    table = make()
    address = f"127.0.0.1:{free_port()}"
    settings = {"KAFKA": address} if missing == "KAFKA" else {"REDIS": f"redis://{address}/0"}
    worker = table.start(CONNECT_S="1", **settings)
    assert worker.wait() == 3
    lines = [line for line in worker.log.strip().splitlines() if line.startswith("shoal:")]
    assert len(lines) == 1
    assert missing.capitalize() in lines[0]
    assert "Traceback" not in worker.log


def test_the_web_views_say_who_it_is_and_whether_it_works(make: Make) -> None:
    table = make()
    port = free_port()
    worker = table.start(WEB_PORT=str(port))
    worker.await_log("planner.ready")
    table.send(inserts(0, 50))
    table.release()
    assert ask(port, "health") == (200, {"status": "alive"})
    code, found = ask(port, "ready")
    assert code == 200
    assert (found["ready"], found["role"], found["release"], found["lag"]) == (True, "planner", 1, 0)
    assert found["partitions"] == [0, 1, 2, 3]


def test_nothing_of_a_person_appears_in_a_log_or_a_header(make: Make) -> None:
    table = make()
    worker = table.start(LOG_LEVEL="debug")
    worker.await_log("planner.ready")
    people = [insert(number, id=f"canary{number}") for number in range(60)]
    table.send(people)
    table.send([{"op": "insert", "id": "canary-bad", "canary-field": 1}, b'{"op":"canary', people[0]], partition=1)
    table.send([{**people[1], "id": "canary-x", "sensitive": ["canary-disease"]}])
    table.request(b'{"op":"canary-trigger"}')
    table.release()
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
