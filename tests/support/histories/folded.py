"""Short series of releases that hold only what changed, with one shard or several, as they lie in a folder."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from shoal.core.events.intake import Intake
from shoal.core.overlap.external import External, parse_external
from shoal.core.plan import Window, plan
from shoal.core.policy.policy import Policy
from shoal.core.published.manifest import Manifest, PublishedRelease
from shoal.core.shards.table import Table
from shoal.core.state import State
from tests.support.histories.mixed import draw_policy
from tests.support.histories.moving import draw_moving

KEY = b"secret"


def windows_of(policy: Policy, events: Iterator[dict[str, Any]]) -> Iterator[Window]:
    """The windows between requests for a release; all events are right."""
    intake, externals = Intake(policy, {}, held={}), list[Any]()
    for event in events:
        if event["op"] == "external":
            read = parse_external(event, policy)
            assert isinstance(read, External)
            externals = list(read.groups)
        elif event["op"] == "release":
            yield Window(None, {0: intake.cut()}, externals)
            externals = []
        else:
            assert intake.take(event) is None


def make_series(
    shards: int, full_every: int = 4, releases: int = 5, seed: int = 5, table: str = "mixed"
) -> tuple[Policy, list[PublishedRelease]]:
    """A table of some 200 people of whom many move about, and its releases; between the last three nothing happens."""
    draw = random.Random(seed)
    policy = replace(draw_policy(draw), shards=shards, full_every=full_every, table=table)
    windows = list(windows_of(policy, draw_moving(draw, policy, 240, releases)))
    windows += [Window(None, {0: {}})] * 2
    make = _of_one if shards == 1 else _of_many
    return policy, list(make(policy, windows))


def _of_one(policy: Policy, windows: Sequence[Window]) -> Iterator[PublishedRelease]:
    state = State.empty(policy, KEY)
    for number, window in enumerate(windows, 1):
        made = plan(state, window, policy, number)
        state.apply(made.change)
        one = made.release
        yield PublishedRelease(number, one.cells, one.groups, Manifest(one.manifest), one.gone)


def _of_many(policy: Policy, windows: Sequence[Window]) -> Iterator[PublishedRelease]:
    table = Table.empty(policy, KEY)
    for number, window in enumerate(windows, 1):
        made = table.plan(window, number)
        table.apply(made)
        yield PublishedRelease(number, tuple(made.cells), tuple(made.groups), Manifest(made.manifest), tuple(made.gone))


def rechain(releases: Sequence[PublishedRelease], change: Callable[[dict[str, Any]], None]) -> list[PublishedRelease]:
    """The same with changed manifests, each of which names the one before it again."""
    previous, found = None, []
    for one in releases:
        manifest = json.loads(one.manifest)
        change(manifest)
        manifest["previous"] = previous
        text = json.dumps(manifest, ensure_ascii=False, separators=(",", ":")).encode()
        previous = sha256(text).hexdigest()
        found.append(replace(one, head=Manifest(text)))
    return found
