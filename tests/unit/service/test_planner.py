"""What a planner does about triggers that another worker may have had in the meantime."""

import asyncio
from typing import Any, cast

import pytest

from shoal.streams.settings import Settings
from shoal.streams.store.store import Store
from shoal.streams.worker.planner import Planner
from tests.support.engines.series import clinic_policy


async def test_a_worker_told_twice_that_triggers_are_its_own_looks_at_the_topic_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planner = Planner(Settings(), clinic_policy(), cast(Store, None), 1, lambda _: None)
    looks: asyncio.Queue[None] = asyncio.Queue()

    async def look(*_: Any) -> None:
        looks.put_nowait(None)

    monkeypatch.setattr(planner, "_catch_up", look)
    planner._next_trigger = 0
    planner.own(is_owner=True)
    serving = asyncio.create_task(planner._serve(cast(Any, None)))
    await asyncio.wait_for(looks.get(), 5)
    assert looks.empty()
    planner.own(is_owner=True)
    await asyncio.wait_for(looks.get(), 5)
    serving.cancel()
