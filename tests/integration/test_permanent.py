"""Permanent values on real services: who holds what, and who stands in for whom, survive Redis, restarts, rebuilds."""

from pathlib import Path
from typing import Any

import pytest

from shoal.core.events.event import Reason, Reject
from shoal.core.events.intake import Intake
from shoal.core.plan import Window, plan
from shoal.core.policy.policy import Policy
from shoal.core.randomness import KeyedByHandle
from shoal.core.state import RECORDS, State
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.store.store import Store
from tests.integration.test_store import PARTITIONS, hold, keyed, release, store, take
from tests.support.services.by_hand import load_only
from tests.support.services.table import DISEASES, KEY, POLICY, REDRAWN, Make, insert, write_policy

__all__ = ["store"]  # a fixture, plain and encrypted

KINDS: dict[str, dict[str, Any]] = {
    "lasting": {"sensitive": {**POLICY["sensitive"], "permanent": ["lupus"]}},
    "redrawn": {**REDRAWN, "sensitive": {**REDRAWN["sensitive"], "open": [*DISEASES[:4]], "permanent": ["lupus"]}},
}
CLIQUES = {"lasting": "bonds", "redrawn": "cliques"}  # the kind of record that has them


@pytest.fixture(params=KINDS)
def policy(request: pytest.FixtureRequest, tmp_path: Path, table: str) -> Policy:
    return load_policy(write_policy(tmp_path, table, **KINDS[request.param]))


def _events(start: int, count: int) -> list[dict[str, Any]]:
    return [insert(number) for number in range(start, start + count)]


async def test_cliques_are_read_back_as_they_were_sealed(store: Store, policy: Policy) -> None:
    parts = [await hold(store, policy, number) for number in range(PARTITIONS)]
    await take(store, parts[0], *_events(0, 120))
    await release(store, policy, *parts)
    gone = [{"op": "delete", "id": f"p{number}"} for number in range(0, 120, 5)]
    await take(store, parts[0], *gone)
    await release(store, policy, *parts, number=2)
    meta = await store.meta()
    assert meta is not None
    loaded = await load_only(store, policy)
    state = State.empty(policy, KEY.encode(), KeyedByHandle)
    intake = Intake(policy, {}, handle_of=state.keyed.handle)
    for number, events in enumerate((_events(0, 120), gone), start=1):
        for event in events:
            assert intake.take(event, 0) is None
        state.apply(plan(state, Window(None, {0: intake.cut(), 1: {}}), policy, number).change)
    assert list(loaded.records(CLIQUES[policy.values]))
    for name in RECORDS:
        assert dict(loaded.records(name)) == dict(state.records(name)), name


async def test_nothing_in_redis_names_an_owner(store: Store, policy: Policy) -> None:
    parts = [await hold(store, policy, number) for number in range(PARTITIONS)]
    await take(store, parts[0], *(insert(number, id=f"canary-{number}") for number in range(60)))
    await release(store, policy, *parts)
    stored = await store.redis.hgetall(store.key(CLIQUES[policy.values]))
    assert stored
    handles = [keyed(policy).handle(f"canary-{number}").encode() for number in range(60)]
    is_plain = store.cipher.fingerprints == ("",)
    assert any(handle in value for handle in handles for value in stored.values()) == is_plain
    assert not any(b"canary" in value for value in stored.values())


async def test_a_partition_read_back_knows_who_holds_what(store: Store, policy: Policy) -> None:
    parts = [await hold(store, policy, number) for number in range(PARTITIONS)]
    ill = {**insert(1), "sensitive": ["lupus"]}
    await take(store, parts[0], ill, insert(2), {"op": "delete", "id": "p1"})
    cure = {"op": "update", "id": "p1", "sensitive": ["flu"]}
    for moment in ("in an open window", "after its release"):
        part = await hold(store, policy)
        assert part.intake.held == parts[0].intake.held != {}, moment
        assert part.intake.take(insert(1)) is None
        assert part.intake.take(cure) == Reject(Reason.PERMANENT, "update", "sensitive"), moment
        if moment == "in an open window":
            parts[0] = await hold(store, policy)
            await release(store, policy, *parts)


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_restarted_and_one_rebuilt_go_on_with_the_same_cliques(make: Make, kind: str) -> None:
    clinic = make(**KINDS[kind])
    register = [{"op": "register", "id": f"r{number}", "qid": insert(number)["qid"]} for number in range(40)]
    worker = clinic.start_planner()
    clinic.send([*register, *_events(0, 150)])
    clinic.request()
    clinic.await_releases(1)
    worker.await_log("release.applied")
    assert worker.stop() == 0
    clinic.send([{"op": "delete", "id": f"p{number}"} for number in range(0, 150, 6)])
    clinic.send([{"op": "update", "id": "p5", "sensitive": ["lupus"]}])
    clinic.request()
    worker = clinic.start()
    clinic.await_releases(2)
    worker.await_log("release.applied")
    assert worker.stop() == 0
    before = clinic.stored()[CLIQUES[kind]]
    clinic.wipe()
    assert clinic.run("rebuild").returncode == 0
    assert clinic.stored()[CLIQUES[kind]] == before != {}
    worker = clinic.start_planner()
    clinic.send([insert(number) for number in range(0, 150, 12)])
    clinic.request()
    clinic.await_releases(3)
    clinic.judge()
