"""What a worker refuses because it would break a promise, and that nothing it says gives anybody away."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import msgpack
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from deploy.local import Local
from deploy.local.ports import free_port
from shoal.streams.files.rejects import rejects_beside
from tests.fault.scene import PATIENCE_S, Scene, said
from tests.integration.mixture import MSGPACK, Sent, send
from tests.support.services.table import KEY, insert

CANARY = "canary"


@pytest.mark.timeout(400)
def test_a_table_begun_with_another_engine_or_other_partitions_is_refused_in_one_sentence(scene: Scene) -> None:
    scene.pour(40)
    scene.ask()
    worker = scene.start()
    scene.await_releases(1, PATIENCE_S)
    worker.await_log("release.applied", PATIENCE_S)
    assert worker.stop() == 0
    meta = f"{{shoal:{scene.name}}}:meta"
    with scene.connect() as client:
        engine = client.hget(meta, "engine")
        client.hset(meta, "engine", "0.0")
        _assert_refused(scene, "engine 0.0")
        client.hset(meta, "engine", engine)
    admin = AdminClient({"bootstrap.servers": scene.kafka})
    admin.create_partitions([NewPartitions(scene.topics.events, scene.partitions + 1)])[scene.topics.events].result(30)
    _assert_refused(scene, "partitions")


def _assert_refused(scene: Scene, word: str) -> None:
    worker = scene.start()
    assert scene.await_exit(worker) == 2, worker.log
    assert word in said(worker)
    assert len(worker.log.strip().splitlines()) == 1, "one sentence is enough"


@pytest.mark.timeout(400)
def test_canaries_in_ids_values_keys_headers_and_bad_events_are_in_nothing_that_shoal_says(
    fragile: Scene, native_services: Local, tmp_path: Path
) -> None:
    """Not in the log with --debug, not while Kafka or Redis is away, not in what a command says that fails."""
    scene, port = fragile, free_port()
    worker = scene.start("--debug", LOG_FORMAT="json", WEB_PORT=str(port))
    people = [insert(number, id=f"{CANARY}-{number}") for number in range(40)]
    good = [Sent(person["id"], json.dumps(person).encode()) for person in people]
    bad = _bad(people[0])
    send(scene, [*good, *bad, Sent(people[1]["id"], good[1].value, partition=(scene.home(people[1]["id"]) + 1) % 3)])
    scene.request(b'{"op": "release", "at": "%s"}' % CANARY.encode())
    scene.request(b'{"op": "%s"}' % CANARY.encode())
    scene.request(CANARY.encode())
    scene.request()
    releases = scene.await_releases(1, PATIENCE_S)
    letters = len(bad) + 1 + 3
    scene.await_dead_letters(letters, PATIENCE_S)
    texts = {"log": worker.log}
    for page in ("health", "ready", "metrics"):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=30) as answer:
            texts[page] = answer.read().decode()
    native_services.redis.kill()
    send(scene, [_moved(person, 1) for person in people] + bad)  # taken, and not written
    worker.await_log("redis", PATIENCE_S)
    native_services.redis.restart()
    scene.await_dead_letters(letters + len(bad), PATIENCE_S)
    native_services.kafka.kill()
    worker.await_log("library.warned", PATIENCE_S)
    native_services.kafka.restart()
    send(scene, [_moved(person, 2) for person in people])
    scene.request()
    releases = scene.await_releases(2, PATIENCE_S)
    with scene.connect() as client:
        client.delete(*scene.keys)
    send(scene, bad)
    assert scene.await_exit(worker) == 1, worker.log
    assert "Traceback" in worker.log
    texts["log to the end"] = worker.log
    scene.start("--debug").await_log("shoal rebuild", PATIENCE_S)
    rebuilt = scene.run("rebuild", "--debug")
    assert rebuilt.returncode == 0, rebuilt.stderr
    texts["rebuild"] = rebuilt.stdout + rebuilt.stderr

    file, out = tmp_path / "events.jsonl", tmp_path / "out"
    file.write_bytes(b"\n".join(record.value for record in [*good, *bad] if record.value))
    replayed = scene.run("replay", str(scene.policy_path), str(file), "--out", str(out), "--seed", KEY, "--debug")
    assert replayed.returncode == 0, replayed.stderr
    texts["replay"] = replayed.stdout + replayed.stderr + rejects_beside(out).read_text()
    texts["releases"] = repr([(release.manifest, release.records, release.headers) for release in releases])
    for where, text in texts.items():
        assert text, where
        assert CANARY not in text.lower(), where
    found = scene.read(scene.topics.dead_letter, 0)
    assert len(found) >= letters
    for letter in found:
        ours = [letter.headers.get(name, b"") for name in ("reason", "field", "op", "topic", "partition", "offset")]
        assert CANARY.encode() not in b"".join(ours)


def _moved(person: dict[str, Any], age: int) -> Sent:
    return Sent(person["id"], json.dumps({"op": "update", "id": person["id"], "qid": {"age": age}}).encode())


def _bad(person: dict[str, object]) -> list[Sent]:
    """Rejected for every kind of reason, each with a canary where the reason lies."""
    events: list[object] = [
        {**person, "op": CANARY},
        {**person, CANARY: 1},
        person,  # already present
        {"op": "update", "id": f"{CANARY}-nobody", "qid": {"age": 1}},
        {"op": "update", "id": person["id"], "qid": {CANARY: 1}},
        {"op": "update", "id": person["id"], "qid": {"zip": CANARY}},
        {"op": "update", "id": person["id"], "qid": {"age": CANARY}},
        {"op": "update", "id": person["id"], "sensitive": [CANARY]},
        {"op": "update", "id": person["id"], "guard": CANARY},
        {"op": "delete", "id": person["id"], "at": CANARY},
        {"op": "delete", "id": [CANARY]},
        {"op": "external", "publisher": CANARY, "groups": []},
        [CANARY],
        CANARY,
    ]
    whose = str(person["id"])
    raw = [json.dumps(event).encode() for event in events]
    raw += [b'{"op": "' + CANARY.encode(), CANARY.encode() + b"\xff", b'{"%s": 1, "%s": 2}' % ((CANARY.encode(),) * 2)]
    packed = msgpack.packb({CANARY: person})
    return [
        *(Sent(whose, value, {"x-note": CANARY.encode()}) for value in raw),
        Sent(whose, raw[0], {"content-type": CANARY.encode()}),
        Sent(whose, packed, {"content-type": MSGPACK}),
        Sent(whose, packed[:-3], {"content-type": MSGPACK}),
    ]
