"""A change of policy in the service: asked for on the triggers topic, made with a release, rebuilt and replayed."""

import json
from pathlib import Path
from typing import Any

import pytest

from shoal.streams.files.policy_record import pack_policy, unpack_policy
from shoal.streams.files.policy_yaml import load_policy
from tests.integration.replayed import assert_a_replay_makes_the_same
from tests.support.services.table import POLICY, SHARDED, Make, Table, await_that, insert, inserts

ENDED = "has another policy since its last release"
NEW_ZIP, NEW_VALUE = "z99", "rosacea"
STEPS = ("1", "2", "4.part", "4", "5", "8.open", "8", "9.part", "9", "10")
SHARD_STEPS = (
    "2", "3.part", "3", "4.part", "4", "5", "6.open", "6", "7.open", "7:2", "8.open", "8", "9.part", "9:2", "10.part",
    "10",
)  # fmt: skip


def changed(table: Table, **privacy: Any) -> Path:
    """The table's policy with a new zip, a new disease and other limits, as a file."""
    document = json.loads(table.policy_path.read_text())
    document["attributes"]["zip"]["values"].append(NEW_ZIP)
    document["sensitive"]["values"].append(NEW_VALUE)
    document["privacy"] |= {"k": 4, **({"batch": 8} if privacy.get("values") != "redrawn" else {}), **privacy}
    path = table.folder / f"{table.name}-new.json"
    path.write_text(json.dumps(document))
    return path


def newcomers(start: int) -> list[Any]:
    """People of whom some have what is new."""
    people = [insert(number) for number in range(start, start + 60)]
    for person in people[::4]:
        person["qid"]["zip"] = NEW_ZIP
    return [{**person, "sensitive": [NEW_VALUE]} if at % 5 == 0 else person for at, person in enumerate(people)]


def manifests(table: Table) -> list[dict[str, Any]]:
    return [json.loads(release.manifest) for release in table.releases()]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("model", ["lasting", "redrawn", "shards"])
def test_a_policy_takes_over_with_a_release_and_everything_goes_on(make: Make, model: str) -> None:
    is_sharded = model == "shards"
    privacy = {"values": "lasting" if is_sharded else model, "k": 3, "l": 2}
    table = make(privacy=privacy, **(SHARDED if is_sharded else {}))
    worker = table.start_planner()
    table.send(inserts(0, 150))
    table.release()
    new = changed(table, values=privacy["values"])
    early = table.start(POLICY=str(new))
    assert early.wait() == 2
    assert "ask for the change with `shoal policy change NEW`" in early.log.splitlines()[-1]

    table.send(inserts(150, 40))
    asked = table.run("policy", "change", str(new))
    assert asked.returncode == 0, asked.stderr
    assert f"sensitive: {NEW_VALUE} is new, below *" in asked.stdout
    table.send(newcomers(300))  # for the next release: this one ends where the request found the topic
    assert worker.wait(60) == 2
    assert ENDED in worker.log.splitlines()[-1]
    late = table.start()
    assert late.wait() == 2
    assert "another policy" in late.log.splitlines()[-1]

    worker = table.start_planner(POLICY=str(new))
    table.release()
    table.send(newcomers(400))
    table.release()
    table.send([{"op": "delete", "id": f"p{number}"} for number in range(0, 200, 7)])
    table.release()
    worker.await_log("release.applied", count=3)
    assert worker.stop() == 0
    old, after = load_policy(table.policy_path), load_policy(new)
    assert [(one["policy"], one.get("previous_policy")) for one in manifests(table)] == [
        (old.digest, None), (after.digest, old.digest), *[(after.digest, None)] * 3,
    ]  # fmt: skip
    shown = b"".join(record for release in table.releases() for record in release.records)
    assert NEW_VALUE.encode() in shown or model == "redrawn"
    assert_a_replay_makes_the_same(table, {2: after})

    stored = stored_under(table, new)
    for file in (table.policy_path, new):  # the topic has the other one
        table.wipe()
        rebuilt = table.run("rebuild", POLICY=str(file))
        assert rebuilt.returncode == 0, rebuilt.stderr
        assert stored_under(table, new) == stored


def stored_under(table: Table, policy: Path) -> dict[str, Any]:
    was, table.policy_path = table.policy_path, policy
    try:
        return table.stored()
    finally:
        table.policy_path = was


def test_a_change_that_is_refused_asks_for_nothing_and_a_forged_one_becomes_a_dead_letter(make: Make) -> None:
    table = make()
    worker = table.start_planner()
    table.send(inserts(0, 60))
    table.release()
    new = changed(table, k=2)
    refused = table.run("policy", "change", str(new))
    assert refused.returncode == 2
    assert "privacy.k: 3 to 2: refused, regions were promised to be shared by 3" in refused.stderr
    packed = {"previous": pack_policy(table.policy_path), "policy": pack_policy(new)}
    table.request(json.dumps({"op": "change", **packed}).encode())
    table.request(json.dumps({"op": "change", "previous": packed["policy"], "policy": packed["previous"]}).encode())
    table.request(json.dumps({"op": "change", "previous": "junk", "policy": "junk"}).encode())
    of_triggers = [offset for topic, _, offset in table.await_dead_letters(6) if topic == table.topics.triggers]
    assert sorted(of_triggers) == [1, 2, 3]
    table.release()
    assert all("previous_policy" not in manifest for manifest in manifests(table))
    assert worker.stop() == 0


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("step", "shards"), [*((step, 1) for step in STEPS), *((step, 2) for step in SHARD_STEPS)])
def test_a_worker_killed_at_any_step_of_a_change_leaves_one_release_of_it(make: Make, step: str, shards: int) -> None:
    table = make(**(SHARDED if shards > 1 else {}))
    worker = table.start_planner()
    table.send(inserts(0, 80))
    table.release()
    worker.await_log("release.applied")
    assert worker.stop() == 0
    dying = table.start_planner(CRASH_AT=f"release.{step}")
    new = changed(table)
    table.send([{"op": "update", "id": f"p{number}", "qid": {"age": 120 - number}} for number in range(0, 80, 3)])
    assert table.run("policy", "change", str(new)).returncode == 0
    table.send(newcomers(300))
    assert dying.wait(60) == -9, dying.log
    again = table.start()
    assert again.wait(60) == 2, again.log
    assert ENDED in again.log or "another policy" in again.log
    worker = table.start_planner(POLICY=str(new))
    table.await_releases(2)
    table.release()
    worker.await_log("planner.ready")
    assert worker.stop() == 0
    assert [manifest["release"] for manifest in manifests(table) if "previous_policy" in manifest] == [2]
    assert_a_replay_makes_the_same(table, {2: load_policy(new)})


@pytest.mark.timeout(240)
def test_a_change_that_was_announced_comes_out_the_same_after_redis_was_set_back(make: Make) -> None:
    table = make(**SHARDED)
    dying = table.start_planner(CRASH_AT="release.6:2")
    table.send(inserts(0, 80))
    table.release()
    dying.await_log("release.applied")
    with table.connect() as client:
        old = {key: client.dump(key) for key in table.keys}
    new = changed(table)
    assert table.run("policy", "change", str(new)).returncode == 0
    assert dying.wait(60) == -9, dying.log
    table.wipe()
    with table.connect() as client:
        for key, value in old.items():
            client.restore(key, 0, value)
    again = table.start()
    assert again.wait(60) == 2, again.log
    assert "cause=announced" in again.log
    assert ENDED in again.log.splitlines()[-1]
    worker = table.start_planner(POLICY=str(new))
    table.send(newcomers(300))
    table.release()
    assert worker.stop() == 0
    assert [manifest["release"] for manifest in manifests(table) if "previous_policy" in manifest] == [2]
    assert_a_replay_makes_the_same(table, {2: load_policy(new)})


def test_a_policy_comes_out_of_a_record_as_it_went_in(make: Make) -> None:
    table = make()
    found = unpack_policy(pack_policy(table.policy_path))
    assert found == load_policy(table.policy_path)
    assert POLICY["privacy"]["k"] == found.k
    assert unpack_policy(pack_policy(table.policy_path)[:-4]) is None


def test_a_worker_without_a_partition_notices_that_another_policy_has_taken_over(make: Make) -> None:
    table = make(partitions=1)
    workers = [table.start_planner(), table.start()]
    workers[1].await_log("ingest.assigned")
    table.send([insert(number) for number in range(40)])
    table.release()
    await_that(lambda: any("partitions=0" in worker.log for worker in workers), 30, *(one._log for one in workers))
    with table.connect() as client:
        client.hset(f"{{shoal:{table.name}}}:meta", "policy", "another")
    await_that(lambda: any(ENDED in worker.log for worker in workers), 15, *(one._log for one in workers))
