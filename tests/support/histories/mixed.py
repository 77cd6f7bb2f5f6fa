"""Random histories of lasting tables with everything at once: several values, guards, permanent values, others."""

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shoal.core.policy.policy import Policy, build_policy

Event = dict[str, Any]

GUARDS: tuple[Any, ...] = ("", "k0", "k1", "k2", "d3", "*", {"node": "k1", "bound": 0.2}, {"node": None})


def draw_policy(draw: random.Random) -> Policy:
    """A small table: some open values, some permanent ones (few, or enough for signatures), any limits."""
    return build_policy(*draw_document(draw), b"mixed")


def draw_document(draw: random.Random) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The document of such a policy, and its hierarchies."""
    count = draw.choice([6, 8, 12, 20])
    labels = [f"d{rank}" for rank in range(count)]
    l = draw.choice([2, 2, 3]) if count >= 8 else 2
    insiders = draw.choice([0, 0, 1]) if 2 * l < count else 0
    least = 2 * l + insiders
    signature = least + draw.choice([0, 0, 1]) if least < count else least
    lasting = draw.choice([0, 0, 1, 2, min(signature + 1, count - 4), count])
    document = {
        "table": "mixed",
        "attributes": {
            "age": {"type": "int", "min": 0, "max": 99},
            "weight": {"type": "float", "min": 0.0, "max": 10.0},
            "sex": {"type": "category", "values": ["f", "m"]},
        },
        "sensitive": {
            "name": "disease",
            "hierarchy": "disease.csv",
            "open": labels[: draw.choice([0, 1, 2])] if lasting < count else [],
            "permanent": labels[count - lasting :],
        },
        "privacy": {
            "k": draw.choice([2, 3]),
            "l": l,
            "signature": signature,
            "insiders": insiders,
            "batch": signature + draw.choice([0, 0, 3]),
            "sampling": draw.choice([1.0, 1.0, 0.8]),
            "participation": draw.choice([0, 1, "all"]),
        },
    }
    diseases = "".join(f"d{rank};k{rank * 3 // count};*\n" for rank in range(count))
    return document, {"disease.csv": diseases.encode()}


def draw_events(
    draw: random.Random, policy: Policy, people: int, releases: int, changes: Mapping[int, Policy] | None = None
) -> Iterator[Event]:
    """Events that are all accepted, with requests for releases among them.

    `changes` are policies by the number of the release with which they take over; such a release is a "change".
    """
    labels, permanent, sexes = _labels_of(policy)
    present: set[str] = set()
    gone: set[str] = set()
    erased: set[str] = set()
    held: dict[str, set[str]] = defaultdict(set)
    has_others = draw.random() < 0.5
    for release in range(releases):
        for _ in range(people if not release else draw.randrange(people // 2 + 1)):
            person = f"p{draw.randrange(people * 3 // 2)}"
            if erased and draw.random() < 0.3:
                person = draw.choice(sorted(erased))  # some of whom are here again
            if person in gone:
                continue
            event = _draw_change(draw, person, person in present, labels, held[person], sexes)
            (present.discard if event["op"] == "delete" else present.add)(person)
            held[person] |= permanent.intersection(event.get("sensitive", ()))
            yield event
            if event["op"] == "delete" and draw.random() < 0.2:
                gone.add(person)
                yield {"op": "deregister", "id": person}
            if draw.random() < (0.15 if release else 0.02):
                doomed = draw.choice(sorted(held))  # anybody ever met: present, absent, deregistered or erased before
                present.discard(doomed)
                held[doomed].clear()
                erased.add(doomed)
                yield {"op": "erase", "id": doomed}
        if has_others and draw.random() < 0.5:
            yield _draw_external(draw, labels)
        after = (changes or {}).get(release + 1)
        yield {"op": "release" if after is None else "change"}
        if after is not None:
            labels, permanent, sexes = _labels_of(after)


def _labels_of(policy: Policy) -> tuple[list[str], set[str], Sequence[str]]:
    """All values, the permanent ones, and what the category may be."""
    labels, sex = list(policy.sensitive.hierarchy.leaves), policy.attributes[-1].hierarchy
    assert sex is not None
    return labels, {labels[leaf] for leaf in policy.sensitive.permanent}, sex.leaves


def transient_labels(policy: Policy) -> list[str]:
    """The values that are protected and may be lost again."""
    others = policy.sensitive.permanent | policy.sensitive.open
    return [label for leaf, label in enumerate(policy.sensitive.hierarchy.leaves) if leaf not in others]


def draw_restless(draw: random.Random, policy: Policy, people: int, releases: int) -> Iterator[Event]:
    """The same few people all the time, who change their values and ask for nothing, or for something, again."""
    labels = transient_labels(policy)[:7]
    for release in range(releases):
        for number in range(people):
            event: Event = {"op": "update", "id": f"p{number}", "sensitive": [draw.choice(labels)]}
            if not release:
                qid = {"age": draw.randrange(100), "weight": round(draw.random() * 10, 2), "sex": draw.choice("fm")}
                event |= {"op": "insert", "qid": qid}
            if draw.random() < 0.3:
                event["guard"] = draw.choice(["", {"node": None}])
            if not release or draw.random() < 0.7:
                yield event
        yield {"op": "release"}


def narrow_policy(values: int, permanent: int = 0, insiders: int = 0) -> Policy:
    """So few values that many a second and third one of a person lies in a signature of theirs."""
    labels = [f"d{rank}" for rank in range(values)]
    document = {
        "table": "narrow",
        "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
        "sensitive": {"name": "disease", "values": labels, "permanent": labels[values - permanent :]},
        "privacy": {"k": 2, "l": 2, "insiders": insiders, "batch": 4 + insiders},
    }
    return build_policy(document, {}, b"narrow")


def draw_narrow(draw: random.Random, policy: Policy, people: int, releases: int) -> Iterator[Event]:
    """People who change their values all the time, are away, erased, and come back; and newcomers in every release."""
    labels = list(policy.sensitive.hierarchy.leaves)
    permanent = {labels[leaf] for leaf in policy.sensitive.permanent}
    held: dict[str, set[str]] = {}
    for release in range(releases):
        for number in range(people + release * people // 2):
            person, chance = f"p{number}", draw.random()
            values = {draw.choice(labels)}
            if person not in held:
                held[person] = values & permanent
                place = {"age": draw.randrange(100)}
                yield {"op": "insert", "id": person, "qid": place, "sensitive": sorted(values)}
            elif chance < 0.15:
                yield {"op": "erase" if chance < 0.08 else "delete", "id": person}
                del held[person]
            elif chance < 0.6:
                held[person] |= values & permanent
                yield {"op": "update", "id": person, "sensitive": sorted(values | held[person])}
        yield {"op": "release"}


def _draw_change(
    draw: random.Random, person: str, is_present: bool, labels: list[str], held: set[str], sexes: Sequence[str]
) -> Event:
    chance = draw.random()
    event: Event = {"op": "update", "id": person}
    if not is_present:
        qid = {"age": draw.randrange(100), "weight": round(draw.random() * 10, 2), "sex": draw.choice(sexes)}
        event = {"op": "insert", "id": person, "qid": qid, "sensitive": _draw_values(draw, labels)}
    elif chance < 0.3:
        return {"op": "delete", "id": person}
    elif chance < 0.55:
        event["qid"] = {"age": draw.randrange(100)}
    else:
        event["sensitive"] = sorted({*_draw_values(draw, labels), *held})
    if draw.random() < 0.2:
        event["guard"] = draw.choice(GUARDS)
    return event


def _draw_values(draw: random.Random, labels: list[str]) -> list[str]:
    count = draw.choice([1, 1, 1, 2, 3])
    return sorted(draw.sample(labels if draw.random() < 0.6 else labels[:5], count))


def _draw_external(draw: random.Random, labels: list[str]) -> Event:
    low = draw.randrange(80)
    shown = {label: draw.choice([1, 1, 2]) for label in draw.sample(labels, draw.randrange(1, len(labels)))}
    region = {"age": {"min": low, "max": low + draw.randrange(20)}}
    return {"op": "external", "publisher": "other", "groups": [{"region": region, "sensitive": shown}]}
