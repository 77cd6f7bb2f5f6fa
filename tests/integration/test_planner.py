"""A planner that slept: what it read before is not held against what another has done since."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from shoal.core.policy.meaning import meaning_of
from shoal.streams.errors import GuaranteeError, LostError
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.settings import Settings
from shoal.streams.store.encryption import make_cipher
from shoal.streams.store.store import Store
from shoal.streams.worker.planner import Planner
from shoal.streams.worker.publish import Publisher
from tests.support.services.table import KEY, Make, Table, insert


@pytest.mark.parametrize("asleep", ["before it reads the topic", "before it loads the state"])
async def test_a_planner_that_slept_while_another_made_releases_does_not_take_them_for_a_loss(
    make: Make, monkeypatch: pytest.MonkeyPatch, asleep: str
) -> None:
    table = make()
    await asyncio.to_thread(_begin, table)
    sleeps = _sleeper(lambda: _release_elsewhere(table))
    if asleep == "before it reads the topic":
        monkeypatch.setattr(Publisher, "last", sleeps(Publisher.last))
    else:
        monkeypatch.setattr("shoal.streams.worker.shard_owner.load_shard", sleeps(_lost))
    assert await _outcome_of_a_tenure(table) == "fenced"


async def test_a_planner_whose_redis_is_behind_the_topic_still_refuses(make: Make) -> None:
    table = make()
    await asyncio.to_thread(_begin, table)
    await asyncio.to_thread(_set_back, table)
    assert isinstance(await _outcome_of_a_tenure(table), GuaranteeError)


def _begin(table: Table) -> None:
    worker = table.start_planner()
    table.send([insert(number) for number in range(60)])
    table.release()
    worker.await_log("release.applied")
    assert worker.stop() == 0


def _release_elsewhere(table: Table) -> None:
    """Another worker takes over and makes a release."""
    table.start_planner()
    table.send([insert(number) for number in range(60, 80)])
    table.release()


def _set_back(table: Table) -> None:
    """Redis forgets that there was a release."""
    with table.connect() as client:
        client.hset(f"{{shoal:{table.name}}}:meta", mapping={"release": "0", "sent": "0", "applied": "0"})


async def _lost(*_: Any) -> None:
    """What loading comes to if a release is applied meanwhile: fewer records, or more, than it was told of."""
    raise LostError


def _sleeper(meanwhile: Callable[[], None]) -> Any:
    def sleeps(read: Any) -> Any:
        async def asleep(*given: Any) -> Any:
            await asyncio.to_thread(meanwhile)
            return await read(*given)

        return asleep

    return sleeps


async def _outcome_of_a_tenure(table: Table) -> BaseException | str:
    """What ends the tenure of a planner in this process: what the worker would end with, or that it was replaced."""
    settings = Settings(kafka=table.kafka, redis=table.redis, key=SecretStr(KEY), session_s=2)
    policy = load_policy(table.policy_path)
    store = Store(table.redis, table.name, make_cipher(None), meaning=meaning_of(policy))
    outcome: asyncio.Future[BaseException | str] = asyncio.get_running_loop().create_future()
    planner = Planner(settings, policy, store, table.partitions, outcome.set_result)
    planner._log = _Log(outcome)
    try:
        planner.own(is_owner=True)
        await planner.start()
        return await asyncio.wait_for(outcome, 60)
    finally:
        await planner.stop()
        await store.close()


class _Log:
    """Hears that a planner was replaced."""

    def __init__(self, outcome: "asyncio.Future[BaseException | str]") -> None:
        self._outcome = outcome

    def info(self, *_: Any, **__: Any) -> None: ...

    def warning(self, event: str, **_: Any) -> None:
        if event == "planner.fenced" and not self._outcome.done():
            self._outcome.set_result("fenced")
