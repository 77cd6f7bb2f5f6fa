"""Random histories of sharded tables in the middle of which another policy takes over."""

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from shoal.core.policy.policy import Policy, build_policy
from shoal.core.shards.table import people_needed
from tests.support.histories.mixed import Event, draw_document, draw_events
from tests.support.histories.moving import draw_hamlet, hamlet, moving

HAMLET_NEW: Final = tuple(f"e{rank}" for rank in range(4))

Policies = tuple[Policy, Policy]


def draw_policies(draw: random.Random, shards: int) -> Policies:
    """A policy and one that may follow: new values and a new category, larger numbers, other deltas.

    New labels stand below older ones, so that older leaves get other numbers.
    """
    document, files = draw_document(draw)
    document |= {"scale": {"shards": shards}, "release": {"full_every": draw.choice([1, 1, 3])}}
    if draw.random() < 0.7:  # else the labels are siblings, and a new one stands behind them
        document["attributes"]["sex"] = {"type": "category", "hierarchy": "sex.csv"}
        files["sex.csv"] = b"f;w;*\nm;v;*\n"
    after, added = deepcopy(document), dict(files)
    if "sex.csv" in files:
        added["sex.csv"] = files["sex.csv"] + b"x;w;*\n"
    else:
        after["attributes"]["sex"]["values"] = ["f", "m", "x"]
    _add_values(draw, after, added)
    privacy = after["privacy"]
    privacy["k"] += draw.choice([0, 1])
    privacy["batch"] = draw.choice([privacy["batch"], 2 * privacy["batch"]])
    after["release"] = {"full_every": draw.choice([1, 2, 3])}
    return build_policy(document, files, b"before"), build_policy(after, added, b"after")


def _add_values(draw: random.Random, document: dict[str, Any], files: dict[str, bytes]) -> None:
    """Two to six values below three nodes and the root; some are open, and some permanent if those have cliques."""
    count, sensitive = draw.choice([2, 4, 6]), document["sensitive"]
    chains = "".join(f"e{rank};{draw.choice(['k0;*', 'k0;*', 'k1;*', 'k2;*', '*'])}\n" for rank in range(count))
    files["disease.csv"] += chains.encode()
    known = len(sensitive["permanent"])
    if 0 < known + 1 < document["privacy"]["signature"] and draw.random() < 0.5:
        sensitive["permanent"] = [*sensitive["permanent"], "e0"]
    elif sensitive["open"] and draw.random() < 0.5:
        sensitive["open"] = [*sensitive["open"], "e0"]


def draw_changing(draw: random.Random, policies: Policies, releases: int = 5) -> Iterator[Event]:
    """People who come, go, come back, are erased, and move between shards in every release; with release 2 or 3 the
    second policy takes over. In a third of the histories, there are too few people for shards until then.
    """
    before, after = policies
    changes, needed = {draw.choice([2, 3]): after}, people_needed(before)
    people = needed * 2
    events = moving(draw, draw_events(draw, before, people, releases, changes), 0.3)
    if draw.random() > 0.33:
        return events
    return _late(events, needed // 2)


def _late(events: Iterator[Event], first: int) -> Iterator[Event]:
    """The same events, but for those of a first release that are more than `first`, which come after the change."""
    waiting: list[Event] = []
    held_back: set[str] = set()
    met = 0
    is_late = True
    for event in events:
        met += event["op"] == "insert" and is_late
        person = event.get("id")
        if is_late and person is not None and (met > first or person in held_back):
            held_back.add(person)
            waiting.append(event)
            continue
        yield event
        if event["op"] == "change":
            is_late = False
            yield from waiting


def hamlets(shards: int) -> Policies:
    """A table that is small enough to count all its worlds, and the same with four more values."""
    before = hamlet(shards)
    return before, hamlet(shards, HAMLET_NEW)


def draw_changing_hamlet(draw: random.Random, shards: int, people: int = 18) -> Iterator[Event]:
    """`draw_hamlet` with new values after the change, which is release 2.

    In half of the histories nobody is shown before it, because too few people are there for shards.
    """
    early = draw.choice([people, people // 2])
    return draw_hamlet(draw, people, 4, shards, new=HAMLET_NEW, change=2, early=early)
