"""Releases as deltas: put together they are, byte for byte, the releases of the same history written in full.

Every history is planned three times: in full, as deltas by a state that stays in memory, and as deltas by one that is
read back from its records, now and then. A consumer that begins with any release comes to the same.
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.core.plan import Window, plan
from shoal.core.policy.policy import Policy
from shoal.core.published.deltas import StandingRecords
from shoal.core.published.manifest import Manifest, PublishedRelease
from shoal.core.randomness import Keyed
from shoal.core.release import Release
from shoal.core.shards.table import Table, TablePlan
from shoal.core.state import ENGINE, RECORDS, State
from tests.property.test_engine import POLICIES, histories
from tests.support.engines.series import window_between
from tests.support.histories.folded import KEY, windows_of
from tests.support.histories.mixed import draw_events, draw_policy
from tests.support.histories.moving import draw_moving
from tests.support.judges.series import Table as People


def read_back(state: State) -> State:
    """The state that its own records describe."""
    found = {name: list(state.records(name)) for name in RECORDS}
    return State.load(state.policy, state.keyed, state.meta, Keyed, state.shard, **found)


def published(policy: Policy, windows: list[Window], restarts: random.Random | None = None) -> list[Release]:
    """The releases of a history; with `restarts` the state is read back from its records before some of them."""
    state, found = State.empty(policy, KEY), []
    for number, window in enumerate(windows, 1):
        if restarts is not None and restarts.random() < 0.6:
            state = read_back(state)
        made = plan(state, window, policy, number)
        state.apply(made.change)
        found.append(made.release)
    return found


def check_deltas(policy: Policy, windows: list[Window], full_every: int, draw: random.Random) -> None:
    with_deltas = replace(policy, full_every=full_every)
    in_full, deltas = published(policy, windows), published(with_deltas, windows)
    again = published(with_deltas, windows, draw)
    assert [(one.records, one.manifest) for one in again] == [(one.records, one.manifest) for one in deltas]
    standing: list[StandingRecords] = []
    for number, (whole, delta) in enumerate(zip(in_full, deltas, strict=True), 1):
        said = json.loads(delta.manifest)
        (part,) = said["shards"]
        assert part["full"] == (number == 1 or number % full_every == 0)
        head = Manifest(delta.manifest)
        assert head.parts == [(len(delta.cells), len(delta.groups), len(delta.gone))]
        standing.append(StandingRecords(policy.table))
        for begun, known in enumerate(standing, 1):
            known.take(_in_disorder(head, delta.records, draw))
            assert known.is_whole == any(_is_full(one, full_every) for one in range(begun, number + 1))
            if known.is_whole:
                assert (known.whole().cells, known.whole().groups) == (whole.cells, whole.groups)
        told = {
            name: value for name, value in json.loads(whole.manifest).items() if name not in ("previous", "content")
        }
        assert {name: said[name] for name in told} == told


def _in_disorder(head: Manifest, records: Sequence[bytes], draw: random.Random) -> PublishedRelease:
    """A release whose records may stand in any order."""
    return PublishedRelease(head.told["release"], tuple(draw.sample(records, len(records))), (), head)


def _is_full(number: int, full_every: int) -> bool:
    return number == 1 or number % full_every == 0


@pytest.mark.parametrize("seed", range(40))
def test_deltas_of_a_lasting_table_fold_to_its_full_releases(seed: int) -> None:
    draw = random.Random(seed)
    policy = draw_policy(draw)
    people, releases = draw.choice((8, 30, 60)), draw.choice((5, 8))
    check_deltas(policy, list(windows_of(policy, draw_events(draw, policy, people, releases))), 2 + seed % 4, draw)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(policy=POLICIES, tables=histories(), full_every=st.integers(2, 5), seed=st.integers(0, 1000))
def test_deltas_of_a_redrawn_table_fold_to_its_full_releases(
    policy: Policy, tables: list[People], full_every: int, seed: int
) -> None:
    pairs = zip([{}, *tables], tables, strict=False)
    windows = [window_between(policy, before, after) for before, after in pairs]
    check_deltas(policy, windows, full_every, random.Random(seed))


def test_the_first_release_of_another_engine_is_full() -> None:
    """It may write other bytes for what did not change."""
    draw = random.Random(3)
    policy = replace(draw_policy(draw), full_every=50)
    *windows, last = windows_of(policy, draw_events(draw, policy, 60, 4))
    state = State.empty(policy, KEY)
    for number, window in enumerate(windows, 1):
        state.apply(plan(state, window, policy, number).change)
    for engine, is_full in ((ENGINE, False), ("1.9", True)):
        state.meta = state.meta._replace(engine=engine)
        made = plan(state, last, policy, len(windows) + 1).release
        said = json.loads(made.manifest)
        assert said["shards"][0]["full"] is is_full
        assert (len(made.cells) == said["cells"]) is is_full


def sharded(
    policy: Policy, windows: list[Window], restarts: random.Random | None = None
) -> Iterator[tuple[dict[str, Any], TablePlan]]:
    """The releases of a sharded table: what each manifest says, and its parts."""
    table = Table.empty(policy, KEY)
    for number, window in enumerate(windows, 1):
        if restarts is not None and restarts.random() < 0.6:
            table.states = [read_back(state) for state in table.states]
        made = table.plan(window, number)
        table.apply(made)
        yield json.loads(made.manifest), made


@pytest.mark.parametrize("seed", range(24))
def test_deltas_of_shards_fold_to_their_full_releases(seed: int) -> None:
    draw = random.Random(seed)
    policy = replace(draw_policy(draw), shards=(2, 5, 3)[seed % 3])
    windows = list(windows_of(policy, draw_moving(draw, policy, draw.choice((150, 240)), 6)))
    with_deltas = replace(policy, full_every=2 + seed % 4)
    deltas, again = list(sharded(with_deltas, windows)), list(sharded(with_deltas, windows, draw))
    assert [made.manifest for _, made in again] == [made.manifest for _, made in deltas]
    standing: list[StandingRecords] = []
    for number, ((_, whole), (_, delta), (_, other)) in enumerate(
        zip(sharded(policy, windows), deltas, again, strict=True), 1
    ):
        records = [*delta.cells, *delta.groups, *delta.gone]
        assert records == [*other.cells, *other.groups, *other.gone]
        standing.append(StandingRecords(policy.table))
        for begun, known in enumerate(standing, 1):
            known.take(_in_disorder(Manifest(delta.manifest), records, draw))
            told = [[part["full"] for part in one["shards"]] for one, _ in deltas[begun - 1 : number]]
            assert known.is_whole == all(any(full) for full in zip(*(one for one in told if one), strict=True))
            if known.is_whole:
                assert (known.whole().cells, known.whole().groups) == (whole.cells, whole.groups)
    assert any(said["shards"] for said, _ in deltas), "the history has too few people for cuts"
