"""A Redis that forgot something is refused, and `shoal rebuild` brings back what was there, or nothing."""

import json
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from shoal.core.events.guard import EMPTY
from shoal.core.events.window import ABSENT, DEREGISTERED_STATUS
from shoal.core.signatures.group import CLIQUE_GROUP, PLAIN_GROUP, STAR
from shoal.streams.files.policy_yaml import load_policy
from tests.fault.scene import KINDS, Scene
from tests.integration.replayed import assert_a_replay_makes_the_same
from tests.support.root import ROOT
from tests.support.services.table import Make, Table, insert, inserts
from tests.support.terminal import run_on_terminal


def test_redis_wiped_is_refused_and_rebuild_brings_it_back(make: Make) -> None:
    table = make()
    worker = table.start_planner()
    table.send(inserts(0, 200))
    table.release()
    table.send([{"op": "delete", "id": f"p{number}"} for number in range(0, 200, 9)])
    table.request(b'{"op":"release","at":"2026-02-03T04:05:06Z"}')
    published = table.await_releases(2)
    table.await_dead_letters(8)
    worker.await_log("release.applied", count=2)
    before = table.stored()
    table.wipe()
    table.send([insert(900), b"junk"])
    assert worker.wait() == 1
    assert "shoal rebuild" in worker.log.splitlines()[-1]
    refused = table.start()
    assert refused.wait() == 1
    assert refused.log.strip().splitlines()[-1].startswith("shoal: Redis knows nothing of table")
    assert "Traceback" not in refused.log + worker.log
    rebuilt = table.run("rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert table.stored() == before
    assert "nothing is lost" not in rebuilt.stderr
    assert "already has release 2" in table.run("rebuild").stdout
    table.wipe()
    out, shown = run_on_terminal(["rebuild", "--json"], ROOT, table.environment())
    assert json.loads(out) == {"table": table.name, "release": 2, "made": 2, "snapshot": None}
    assert "rebuilding" in shown
    table.start_planner()
    table.request()
    after = table.await_releases(3)
    assert after[:2] == published
    table.await_dead_letters(9)
    table.judge()


def test_redis_set_back_is_refused_too(make: Make) -> None:
    table = _left_after_a_release(make)
    with table.connect() as client:
        copied = {key: client.dump(key) for key in client.scan_iter(match=f"{{shoal:{table.name}}}:*")}
        worker = table.start_planner()
        table.release()
        worker.await_log("release.applied")
        worker.stop()
        table.wipe()
        for key, value in copied.items():
            client.restore(key, 0, value)
    refused = table.start()
    assert refused.wait() == 1
    assert "only release 1" in refused.log
    assert table.run("rebuild").returncode == 0
    _go_on(table)


def test_a_state_of_which_a_part_is_missing_is_refused_and_rebuilt(make: Make) -> None:
    table = _left_after_a_release(make)
    before = table.stored()
    with table.connect() as client:
        client.delete(next(client.scan_iter(match=f"{{shoal:{table.name}}}:people:*")))
    table.send([{"op": "delete", "id": f"p{number}"} for number in range(100)])
    refused = table.start()
    assert refused.wait() == 1
    assert refused.log.strip().splitlines()[-1].startswith("shoal: Redis lost a part of the state of table")
    assert "shoal rebuild" in refused.log
    assert table.run("rebuild").returncode == 0
    assert table.stored() == before
    _go_on(table)


def test_a_rebuild_under_another_secret_or_policy_is_refused_and_writes_nothing(make: Make) -> None:
    table = _left_after_a_release(make)  # so small that it may come to the same bytes under any secret
    table.wipe()
    wrong = table.run("rebuild", KEY="another secret of the tests")
    assert wrong.returncode == 2, wrong.stderr
    assert "another SHOAL_KEY" in wrong.stderr
    policy = json.loads(table.policy_path.read_text())
    table.policy_path.write_text(json.dumps({**policy, "privacy": {"k": 4, "l": 2}}))
    wrong = table.run("rebuild")
    assert wrong.returncode == 2
    assert "another policy" in wrong.stderr
    assert table.keys == []


def test_a_policy_that_only_reads_differently_goes_on_and_is_rebuilt(make: Make) -> None:
    table = _left_after_a_release(make)
    before = table.policy_path.read_text()
    table.policy_path.write_text(f"# who may change this file?\n{before[:-1]}, release: {{every_events: 1000000}}}}\n")
    worker = table.start_planner()
    table.send(inserts(100, 40))
    named = {json.loads(release.manifest)["policy"] for release in table.release()}
    assert named == {sha256(before.encode()).hexdigest()}
    worker.await_log("release.applied")
    assert worker.stop() == 0
    stored = table.stored()
    table.wipe()
    rebuilt = table.run("rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert table.stored() == stored
    table.policy_path.write_text(before)
    _go_on(table)


def _left_after_a_release(make: Make, **changes: Any) -> Table:
    """A table of one release, all of it in Redis, and nobody at work on it."""
    table = make(**changes)
    worker = table.start_planner()
    table.send(inserts(0, 100))
    table.release()
    worker.await_log("release.applied")
    assert worker.stop() == 0
    return table


def _go_on(table: Table) -> None:
    table.start_planner()
    table.release()
    table.judge()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("kind", "state_key"),
    [("cliques", ""), ("signed", "kept in another place"), ("cliques", "kept in another place"), ("redrawn", "")],
    ids=["cliques", "signed, encrypted", "cliques, encrypted", "redrawn"],
)
def test_permanent_values_guards_registrations_and_other_publishers_are_rebuilt_together(
    kafka: str, redis_db: str, table: str, tmp_path: Path, kind: str, state_key: str
) -> None:
    scene = Scene(kafka, redis_db, tmp_path, table, **KINDS[kind])
    secret = {"STATE_KEY": state_key} if state_key else {}
    try:
        worker = scene.start_planner(**secret)
        scene.settle()
        pour = partial(scene.pour, 450)
        for happens in (pour, pour, pour, pour, scene.thin, partial(scene.pour, 8), _nothing):
            happens()
            scene.ask()
            scene.await_served()
        worker.await_log("release.applied", count=scene.asked)
        scene.await_dead_letters(scene.mixture.counts["bad"])
        assert worker.stop() == 0
        before = scene.stored(state_key)
        _assert_has_something_of_everything(scene, before)
        if kind == "redrawn":
            assert len(before["cliques"]) >= 3
        else:
            _assert_lasting(scene, before, has_cliques=kind == "cliques")
        scene.wipe()
        rebuilt = scene.run("rebuild", **secret)
        assert rebuilt.returncode == 0, rebuilt.stderr
        assert f"{scene.asked} releases, each as it was published" in rebuilt.stdout
        assert scene.stored(state_key) == before
        scene.pour(100)
        scene.start(**secret)
        scene.finish()
        assert_a_replay_makes_the_same(scene)
    finally:
        scene.close()


def _nothing() -> None:
    """So that the last release carries its groups on, whatever the draws of the others."""


def _assert_has_something_of_everything(scene: Scene, stored: dict[str, Any]) -> None:
    """Or the test would show nothing."""
    people = stored["people"].values()
    assert len(stored["externals"]) >= 3
    assert sum(stored["taken"]) > scene.mixture.counts["publications"], "nothing bad was on the external topic"
    assert {ABSENT, DEREGISTERED_STATUS} <= {person.status for person in people}
    assert any(person.status == ABSENT and person.held for person in people), "no holder is away"
    assert sum(person.guard is not None for person in people) >= 5
    assert sum(json.loads(release.manifest)["suppressed"] for release in scene.releases()) > 0
    assert sum(json.loads(release.manifest)["unsampled"] for release in scene.releases()) > 0


def _assert_lasting(scene: Scene, stored: dict[str, Any], *, has_cliques: bool) -> None:
    """Everything that only a lasting table has was there."""
    permanent = set(load_policy(scene.policy_path).sensitive.permanent)
    sets = [set(record.values) for record in stored["signatures"].values()]
    assert any(not values & permanent for values in sets), "no signature of transient values"
    assert any(values <= permanent for values in sets) != has_cliques
    assert bool(stored["bonds"]) == has_cliques
    kinds = {group.kind for group in stored["lasting_groups"].values()}
    assert {STAR, PLAIN_GROUP} < kinds
    assert (CLIQUE_GROUP in kinds) == has_cliques
    people = stored["people"].values()
    assert any(len(person.entries) >= 3 for person in people), "nobody had several values"
    assert any(person.trail for person in people), "nobody moved"
    assert any(person.guard is not None and person.guard.node == EMPTY for person in people), "no empty guard"
    releases = [json.loads(release.manifest) for release in scene.releases()]
    assert sum(manifest["vacant"] for manifest in releases) > 0, "nobody left a group"
    assert sum(manifest["withheld"] for manifest in releases) > 0, "no cell was closed"
    assert sum(manifest["carried"] for manifest in releases) > 0, "every group was touched"


def test_a_worker_that_has_nothing_to_do_follows_a_rebuild_under_it_and_lets_others_join(make: Make) -> None:
    table = _left_after_a_release(make)
    idle = table.start_planner()
    with table.connect() as client:  # as a rebuild leaves it: another moment, and no tokens
        client.hset(f"{{shoal:{table.name}}}:meta", "created", "1.0")
        client.hdel(f"{{shoal:{table.name}}}:ingest", *(f"token:{number}" for number in range(table.partitions)))
    other = table.start()
    other.await_log("worker.start", 40)
    table.send(inserts(300, 30))
    table.release()
    table.judge()
    assert (idle.stop(), other.stop()) == (0, 0), idle.log + other.log
