"""Random histories in which people move through the whole space in every release, whatever else happens to them."""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from shoal.core.policy.policy import Policy, build_policy
from tests.support.histories.mixed import Event, draw_events, draw_restless

HAMLET: Final = tuple(f"d{rank}" for rank in range(8))


def draw_moving(draw: random.Random, policy: Policy, people: int, releases: int, share: float = 0.3) -> Iterator[Event]:
    """`draw_events`, and before every release but the first a share of those who are present move anywhere."""
    return moving(draw, draw_events(draw, policy, people, releases), share)


def draw_restless_movers(draw: random.Random, policy: Policy, people: int, releases: int) -> Iterator[Event]:
    """`draw_restless`, among people of whom half move in every release: values come and go in one shard and another."""
    return moving(draw, draw_restless(draw, policy, people, releases), 0.5)


def moving(draw: random.Random, events: Iterable[Event], share: float) -> Iterator[Event]:
    """These events, and before every release but the first a share of those who are present move anywhere."""
    present: set[str] = set()
    is_first = True
    for event in events:
        if event["op"] == "insert":
            present.add(event["id"])
        elif event["op"] in ("delete", "erase"):
            present.discard(event["id"])
        elif event["op"] in ("release", "change") and not is_first:
            for person in draw.sample(sorted(present), int(share * len(present))):
                place = {"age": draw.randrange(100), "weight": round(draw.random() * 10, 2), "sex": draw.choice("fm")}
                yield {"op": "update", "id": person, "qid": place}
        is_first &= event["op"] not in ("release", "change")
        yield event


def hamlet(shards: int = 2, new: Sequence[str] = (), **privacy: int) -> Policy:
    """A table with shards that is small enough to count all its worlds, and shows values nevertheless."""
    document = {
        "table": "hamlet",
        "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
        "sensitive": {"name": "disease", "values": [*HAMLET, *new]},
        "privacy": {"k": 1, "l": 2, "signature": 4, "batch": 4, "headroom": 0, **privacy},
        "scale": {"shards": shards},
    }
    return build_policy(document, {}, "".join(["hamlet", *new]).encode())


def draw_hamlet(
    draw: random.Random,
    people: int = 18,
    releases: int = 4,
    shards: int = 2,
    new: Sequence[str] = (),
    change: int | None = None,
    early: int | None = None,
) -> Iterator[Event]:
    """The same few people all the time, who move, change, leave and come back, in every release.

    With many shards they meet in two places, others in each release: alone in a shard nobody is shown. The release
    `change` is a change of policy, and after it there are the `new` values. Until then only the `early` people come.
    """
    present: set[str] = set()
    labels = list(HAMLET)
    for release in range(releases):
        fairs = draw.sample(range(100), 2) if release and shards > 2 else range(100)
        is_early = change is not None and release < change
        for person in (f"p{number}" for number in range(early or people if is_early else people)):
            values = draw.sample(labels, draw.choice([1, 1, 1, 2]))
            qid = {"age": draw.choice(fairs)}
            if person not in present:
                present.add(person)
                yield {"op": "insert", "id": person, "qid": qid, "sensitive": values}
            elif release and draw.random() < 0.1:
                present.remove(person)
                yield {"op": "delete", "id": person}
            elif draw.random() < (0.4 if shards <= 2 else 0.8):
                changed = {"sensitive": values} if draw.random() < 0.3 else {}
                yield {"op": "update", "id": person, "qid": qid, **changed}
        is_change = release + 1 == change
        yield {"op": "change" if is_change else "release"}
        labels += new if is_change else ()
