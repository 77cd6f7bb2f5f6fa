"""Random histories in which people move through the whole space in every release, whatever else happens to them."""

import random
from collections.abc import Iterator

from shoal.core.policy.policy import Policy
from tests.support.histories.mixed import Event, draw_events


def draw_moving(draw: random.Random, policy: Policy, people: int, releases: int, share: float = 0.3) -> Iterator[Event]:
    """`draw_events`, and before every release but the first a share of those who are present move anywhere."""
    present: set[str] = set()
    is_first = True
    for event in draw_events(draw, policy, people, releases):
        if event["op"] == "insert":
            present.add(event["id"])
        elif event["op"] in ("delete", "erase"):
            present.discard(event["id"])
        elif event["op"] == "release" and not is_first:
            for person in draw.sample(sorted(present), int(share * len(present))):
                place = {"age": draw.randrange(100), "weight": round(draw.random() * 10, 2), "sex": draw.choice("fm")}
                yield {"op": "update", "id": person, "qid": place}
        is_first &= event["op"] != "release"
        yield event
