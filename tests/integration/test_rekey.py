"""`shoal rekey` on a real table: another key, a first key, and what may go wrong on the way."""

import json
from typing import Any

import pytest

from shoal.streams.store.encryption import KeyRing, is_encrypted
from shoal.streams.store.rekeying import bound_kind
from tests.support.services.table import REDRAWN, SHARDED, Make, Table, await_that, insert, inserts

KINDS: dict[str, dict[str, Any]] = {"lasting": {}, "redrawn": REDRAWN, "shards": SHARDED}
OLD, NEW, THIRD = "the old key of the tests", "the new key of the tests", "a third key of the tests"


def stored_values(table: Table) -> list[bytes]:
    """Every value that is about people."""
    found: list[bytes] = []
    prefix = f"{{shoal:{table.name}}}:".encode()
    with table.connect() as client:
        for key in table.keys:
            kind, shape = bound_kind(key.removeprefix(prefix).decode())
            if kind is not None:
                values: Any = client.lrange(key, 0, -1) if shape == "list" else client.hgetall(key)
                found += values if shape == "list" else values.values()
    return found


def are_under(table: Table, key: str) -> bool:
    """Whether everything is under this key."""
    ring, values = KeyRing([key.encode()]), stored_values(table)
    return bool(values) and all(ring.is_current(value) for value in values)


def run(table: Table, first: int, **settings: str) -> None:
    """A worker makes a release of some people; others wait in an open window when it ends."""
    worker = table.start_planner(**settings)
    table.send(inserts(first, 150))
    table.release()
    table.send(inserts(first + 150, 20))
    number = len(table.releases()) + 1
    await_that(lambda: any(f":window:{number}:".encode() in key for key in table.keys), 30)
    worker.await_log("release.applied")
    assert worker.stop() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_goes_on_under_another_key_and_the_old_one_may_be_thrown_away(make: Make, kind: str) -> None:
    table = make(**KINDS[kind])
    run(table, 0, STATE_KEY=OLD)
    assert are_under(table, OLD)
    before = table.stored(OLD)
    done = table.run("rekey", STATE_KEY=f"{NEW},{OLD}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "under the first key" in done.stdout
    assert are_under(table, NEW)
    assert table.stored(NEW) == before
    run(table, 200, STATE_KEY=NEW)
    table.judge(complete=False)


def test_a_table_that_was_not_encrypted_is_encrypted(make: Make) -> None:
    table = make()
    run(table, 0)
    before = table.stored()
    assert not any(map(is_encrypted, stored_values(table)))
    refused = table.start(STATE_KEY=NEW)
    assert refused.wait() == 2
    assert "is not encrypted: stop its workers and run `shoal rekey`" in refused.log
    assert table.run("rekey", STATE_KEY=NEW).returncode == 0
    assert are_under(table, NEW)
    assert table.stored(NEW) == before
    refused = table.start()
    assert refused.wait() == 2
    assert "another SHOAL_STATE_KEY, or none" in refused.log
    run(table, 200, STATE_KEY=NEW)
    table.judge(complete=False)


@pytest.mark.parametrize("kind", ["lasting", "shards"])
def test_workers_with_the_new_key_first_go_on_meanwhile_and_others_end(make: Make, kind: str) -> None:
    table = make(**KINDS[kind])
    run(table, 0, STATE_KEY=OLD)
    ahead = table.start_planner(STATE_KEY=f"{NEW},{OLD}")
    behind = table.start(STATE_KEY=f"{OLD},{NEW}")
    behind.await_log("ingest.loaded")
    done = table.run("rekey", STATE_KEY=f"{NEW},{OLD}")
    assert done.returncode == 0
    table.send(inserts(200, 30))
    assert behind.wait() == 2, "it notices when it has something to write"
    assert "start this worker with that key first" in behind.log
    table.release()
    assert are_under(table, NEW)
    assert ahead.stop() == 0
    table.judge(complete=False)


@pytest.mark.parametrize("point", ["rekey.1", "rekey.2.part:3", "rekey.2", "rekey.3"])
@pytest.mark.parametrize("began", ["plain", "encrypted", "encrypted, with shards"])
def test_one_that_was_killed_is_run_again(make: Make, began: str, point: str) -> None:
    table = make(**(SHARDED if "shards" in began else {}))
    key, ring = ("", NEW) if began == "plain" else (OLD, f"{NEW},{OLD}")
    run(table, 0, **({"STATE_KEY": key} if key else {}))
    before = table.stored(key)
    assert table.run("rekey", STATE_KEY=ring, CRASH_AT=point).returncode == -9
    if point != "rekey.3":
        early = table.start(**({"STATE_KEY": key} if key else {}))
        assert early.wait() == 2, "whoever does not have the new key first may not write any more"
    if point != "rekey.3" and began == "plain":
        refused = table.start(STATE_KEY=NEW)
        assert refused.wait() == 2
        assert "half encrypted: run `shoal rekey` again" in refused.log
    assert table.run("rekey", STATE_KEY=ring).returncode == 0
    assert table.run("rekey", STATE_KEY=ring).returncode == 0, "twice is as good as once"
    assert are_under(table, NEW)
    assert table.stored(NEW) == before
    run(table, 200, STATE_KEY=NEW)
    table.judge(complete=False)


@pytest.mark.parametrize("point", ["3.part:2", "4.part", "4:3", "5", "7", "9.part:3"])
def test_what_a_release_under_way_has_written_for_shards_is_rekeyed_too(make: Make, point: str) -> None:
    """Moves, staged changes and windows of a release whose worker was killed in the middle of it."""
    table = make(**SHARDED)
    run(table, 0, STATE_KEY=OLD)
    dying = table.start_planner(STATE_KEY=OLD, CRASH_AT=f"release.{point}")
    everywhere = [{"op": "update", "id": f"p{number}", "qid": {"age": 120 - number}} for number in range(60)]
    table.send([*everywhere, *inserts(300, 30)])  # so that people move
    table.request()
    assert dying.wait(60) == -9, dying.log
    kinds = {key.split(b":")[2] for key in table.keys}
    assert b"moves" in kinds
    assert b"stage" in kinds or "3" in point
    before = table.stored(OLD) if "9" not in point else None
    assert table.run("rekey", STATE_KEY=f"{NEW},{OLD}").returncode == 0
    assert are_under(table, NEW)
    assert before is None or table.stored(NEW) == before
    worker = table.start_planner(STATE_KEY=NEW)
    assert len(table.await_releases(2)) == 2
    table.release()
    assert worker.stop() == 0
    table.judge(complete=False)


def test_what_cannot_be_rekeyed_is_refused_and_nothing_is_touched(make: Make) -> None:
    table = make()
    nothing = table.run("rekey", STATE_KEY=NEW)
    assert (nothing.returncode, nothing.stderr) == (2, f"shoal: Redis holds nothing of table {table.name}.\n")
    run(table, 0, STATE_KEY=OLD)
    without = table.run("rekey", STATE_KEY=f"{NEW},{THIRD}")
    assert without.returncode == 2
    assert "behind the one that is to write" in without.stderr
    unset = table.run("rekey")
    assert (unset.returncode, "SHOAL_STATE_KEY is not set" in unset.stderr) == (2, True)
    assert are_under(table, OLD)
    run(table, 200, STATE_KEY=OLD)


def test_a_worker_with_a_new_key_first_writes_with_it_before_any_rekey(make: Make) -> None:
    table = make()
    run(table, 0, STATE_KEY=OLD)
    run(table, 200, STATE_KEY=f"{NEW},{OLD}")
    values = stored_values(table)
    rings = [KeyRing([key.encode()]) for key in (OLD, NEW)]
    assert all(any(ring.is_current(value) for value in values) for ring in rings)
    for ring in (OLD, NEW):
        refused = table.start(STATE_KEY=ring)
        assert refused.wait() == 2, "each of the keys is needed"
    assert table.run("rekey", STATE_KEY=f"{NEW},{OLD}").returncode == 0
    run(table, 400, STATE_KEY=NEW)
    table.judge(complete=False)


def test_producers_and_consumers_never_need_the_secret(make: Make) -> None:
    table = make()
    worker = table.start_planner()
    events, out = table.folder / "events.jsonl", table.folder / "out"
    events.write_text("".join(json.dumps(insert(number)) + "\n" for number in range(60)))
    erased = table.folder / "erased.jsonl"
    erased.write_text('{"op": "erase", "id": "p3"}\n')
    policy = str(table.policy_path)
    for command in (
        ["produce", policy, str(events)],
        ["release", "--wait"],
        ["produce", policy, str(erased)],
        ["release", "--wait"],
        ["releases", "--out", str(out)],
        ["audit", policy, str(out)],
        ["export", str(out), "--to", "csv", "--out", str(table.folder / "tables")],
    ):
        done = table.run(*command, KEY="", STATE_KEY="")
        assert done.returncode == 0, (command, done.stderr)
    assert worker.stop() == 0
    assert len(list(out.glob("release-*"))) == 2
    table.judge()
