"""Tables with shards on real services: the same bytes as in one process, however many workers make them."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.ports import free_port
from shoal.core.cuts import people_needed
from shoal.streams.files.policy_yaml import load_policy
from tests.fault.scene import EVERYTHING, PATIENCE_S, Scene
from tests.integration.replayed import assert_a_replay_makes_the_same
from tests.support.judges.metrics import value
from tests.support.root import ROOT
from tests.support.services.ask import ask
from tests.support.services.table import Table, await_that, insert

SHARDS = 3
_SHARDED = {**EVERYTHING, "scale": {"shards": SHARDS}}


@pytest.fixture
def clinic(kafka: str, redis_db: str, table: str, tmp_path: Path) -> Iterator[Scene]:
    """A table with shards, permanent values, other publishers beside it, sampling, and events that go astray."""
    made = Scene(kafka, redis_db, tmp_path, table, **_SHARDED)
    yield made
    made.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers_makes_what_one_process_makes(clinic: Scene, workers: int) -> None:
    started = [clinic.start() for _ in range(workers)]
    clinic.settle()  # with too few people for cuts
    clinic.fill(200)
    for _ in range(3):
        clinic.pour(150)
        clinic.ask()
        clinic.await_served()
    releases = clinic.finish()
    last = json.loads(releases[-1].manifest)
    assert [one["shard"] for one in last["shards"]] == list(range(SHARDS))
    assert all(one["people"] for one in last["shards"]), "a shard without people shows nothing"
    assert all(worker.stop() == 0 for worker in started)


@pytest.mark.timeout(300)
def test_a_replay_of_the_topics_makes_the_same_bytes(clinic: Scene) -> None:
    clinic.start()
    clinic.settle()
    clinic.fill(200)
    for _ in range(2):
        clinic.pour(100)
        clinic.ask()
        clinic.await_served()
    clinic.finish()
    assert_a_replay_makes_the_same(clinic)


@pytest.mark.timeout(300)
def test_everybody_in_one_shard_and_shards_without_anybody(
    kafka: str, redis_db: str, table: str, tmp_path: Path
) -> None:
    """The cuts are made from people of all ages. Then everybody moves to one age and, in the end, everybody leaves."""
    town = Table(kafka, redis_db, tmp_path, table, 2, scale={"shards": SHARDS})
    try:
        worker = town.start_planner()
        town.send([insert(number) for number in range(120)])
        town.release()
        same = {"age": 40, "sex": "female", "zip": "z1"}
        town.send([{"op": "update", "id": f"p{number}", "qid": same} for number in range(120)])
        town.release()
        town.send([{"op": "delete", "id": f"p{number}"} for number in range(120)])
        releases = town.release()
        told = [json.loads(release.manifest)["shards"] for release in releases]
        assert all(one["people"] for one in told[0])
        assert sorted(one["people"] for one in told[1])[:-1] == [0] * (SHARDS - 1), "not everybody moved to one shard"
        assert sum(one["people"] for one in told[2]) == 0
        town.judge()
        assert worker.stop() == 0
    finally:
        town.close()


@pytest.mark.timeout(300)
def test_ready_metrics_page_and_inspect_name_every_shard(clinic: Scene) -> None:
    port = free_port()
    worker = clinic.start(WEB_PORT=str(port))
    clinic.fill(200)
    clinic.ask()
    clinic.await_served()
    worker.await_log("release.applied", PATIENCE_S)
    found = json.loads(ask(port, "ready")[1])
    assert found["shards"] == {str(shard): "waiting" for shard in range(SHARDS)}
    assert (found["ready"], found["owned_shards"]) == (True, list(range(SHARDS)))
    page = ask(port, "metrics")[1]
    for shard in range(SHARDS):
        assert value(page, "shoal_shard_state", shard=str(shard), state="waiting") == 1
        assert value(page, "shoal_shard_owned", shard=str(shard)) == 1
    assert 'aria-label="Shards"' in ask(port, "now")[1]
    told = clinic.run("inspect", "--json")
    assert told.returncode == 0, told.stderr
    shards = json.loads(told.stdout)["shards"]
    assert [one["shard"] for one in shards] == list(range(SHARDS))
    assert sum(one["records"]["people"] for one in shards) >= 200


@pytest.mark.timeout(300)
def test_too_few_people_for_the_cuts_are_withheld_and_status_and_manifest_say_so(clinic: Scene) -> None:
    port = free_port()
    worker = clinic.start(WEB_PORT=str(port))
    needed = people_needed(load_policy(clinic.policy_path))
    clinic.fill(needed - 1)
    clinic.ask()
    clinic.await_served()
    worker.await_log("release.applied", PATIENCE_S)
    manifest = json.loads(clinic.releases()[-1].manifest)
    assert (manifest["people"], manifest["shards"]) == (0, [])
    assert manifest["withheld"] + manifest["unsampled"] == needed - 1
    said = f"the table is cut into {SHARDS} shards once there are {needed} people; until then all of them are withheld"
    found = json.loads(ask(port, "ready")[1])
    assert (found["ready"], found["note"]) == (True, said)
    assert said[1:] in ask(port, "now")[1]
    assert json.loads(clinic.run("inspect", "--json").stdout)["published"]["note"] == said
    assert said in clinic.run("inspect").stdout
    clinic.fill(2 * needed)  # some of whom are not sampled
    clinic.finish()
    worker.await_log("release.applied", PATIENCE_S, count=len(clinic.releases()))
    assert "note" not in json.loads(ask(port, "ready")[1])
    told = clinic.run("inspect").stdout
    assert said not in told
    assert all(f"shard {shard} " in told for shard in range(SHARDS))
    assert worker.stop() == 0


# A command in which one step fails with one person in the window; nothing else about it is changed.
FRAIL = """
import os, sys
from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed
from shoal.streams.worker import failed_step, shard_owner
from shoal.streams.cli import main

DELTAS = {{"plan_part": lambda args: args[1].deltas, "gather": lambda args: args[4], "present": lambda args: args[3]}}
step = "{step}"

def frail(*args, real=getattr(shard_owner, step)):
    policy = next(one for one in args if isinstance(one, Policy))
    poison = Keyed(os.environ["SHOAL_KEY"].encode(), policy.table).handle("poison")
    if any(poison in deltas for deltas in DELTAS[step](args).values()):
        raise OverflowError("poison")
    return real(*args)

for module in (shard_owner, failed_step):
    setattr(module, step, frail)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("step", "release", "who", "states"),
    [
        ("plan_part", 2, ("shard", "planned"), ["failed", "planned", "planned"]),
        ("gather", 2, ("desk", "gathered"), ["failed", "gathered", "gathered"]),
        ("present", 1, ("desk", "gathered"), ["failed", "gathering", "gathering"]),
    ],
)
def test_a_shard_or_desk_that_fails_is_named_and_the_release_waits_until_the_record_is_left_out(
    clinic: Scene, step: str, release: int, who: tuple[str, str], states: list[str]
) -> None:
    """Planning a shard, gathering a bucket, and making the cuts from the first window."""
    port, log, frail = free_port(), clinic.folder / "frail.log", FRAIL.format(step=step)
    with log.open("wb") as output:
        worker = subprocess.Popen(
            [sys.executable, "-c", frail, "worker"], env=clinic.environment(WEB_PORT=str(port)), cwd=ROOT,
            stdout=output, stderr=output,
        )  # fmt: skip
    try:
        clinic.fill(200)
        if release == 2:
            clinic.ask()
            clinic.await_served()
        clinic.send([insert(1, id="poison")], partition=1)
        offset = next(r.offset for r in clinic.read(clinic.topics.events, 1) if b"poison" in (r.value or b""))
        clinic.ask()
        await_that(lambda: "release.failed" in log.read_text(), PATIENCE_S, log)
        before = len(clinic.releases())
        await_that(lambda: sorted(json.loads(ask(port, "ready")[1])["shards"].values()) == states, PATIENCE_S, log)
        found = json.loads(ask(port, "ready")[1])
        assert not found["ready"]
        shard = next(shard for shard, word in found["shards"].items() if word == "failed")
        failure = rf"{who[0]} {shard} of release {release} cannot be {who[1]} \(OverflowError"
        assert re.search(failure, found["reason"]), found
        assert re.search(failure, log.read_text())
        clinic.pour(40)  # ingest goes on
        assert len(clinic.releases()) == before, "a release came out without one of its shards"
        advice = f"leave out the record that stops it: `shoal skip events 1 {offset}`"
        await_that(lambda: advice in json.loads(ask(port, "ready")[1])["reason"], PATIENCE_S, log)
        await_that(lambda: "release.culprit" in log.read_text() and advice in log.read_text(), PATIENCE_S, log)
        assert clinic.run("skip", "events", "1", str(offset)).returncode == 0
        clinic.await_served()
        assert json.loads(clinic.releases()[-1].headers["skipped"]) == {"1": [offset]}
        await_that(lambda: log.read_text().count("release.applied") >= release, PATIENCE_S, log)
        assert "poison" not in log.read_text().replace(str(clinic.folder), "")
    finally:
        worker.kill()
        worker.wait()
    stored = clinic.stored()
    clinic.wipe()
    rebuilt = clinic.run("rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert clinic.stored() == stored


@pytest.mark.timeout(300)
def test_the_number_of_shards_can_never_be_changed(clinic: Scene, tmp_path: Path) -> None:
    clinic.fill(80)
    worker = clinic.start()
    clinic.ask()
    clinic.await_served()
    assert worker.stop() == 0
    changed = tmp_path / "changed.json"
    document = json.loads(clinic.policy_path.read_text())
    changed.write_text(json.dumps({**document, "scale": {"shards": 4}}))
    refused = clinic.run("policy", "change", str(changed))
    assert refused.returncode == 2
    assert "scale.shards: 3 to 4: refused, the cuts were made for it and stay for ever" in refused.stderr
    for shards, said in ((1, "1 shard:"), (4, "4 shards:")):
        clinic.policy_path.write_text(json.dumps({**document, "scale": {"shards": shards}}))
        ended = clinic.start()
        assert clinic.await_exit(ended) == 2
        assert f"3 partitions, and the policy has {said}" in ended.log.splitlines()[-1], ended.log
