"""Cuts: regions that tile the space, hold about as many people each, and are read back as they were written."""

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from shoal.core.cuts import Cuts, Sample, people_needed
from shoal.core.policy.policy import Policy, build_policy
from shoal.core.randomness import Keyed

ZIP = "".join(f"z{a}{b};z{a}*;*\n" for a in range(4) for b in range(3))
KINDS: dict[str, dict[str, Any]] = {
    "int": {"age": {"type": "int", "min": 0, "max": 99}},
    "float": {"weight": {"type": "float", "min": -5.0, "max": 5.0}},
    "category": {"zip": {"type": "category", "hierarchy": "zip.csv"}},
}
KINDS["all"] = KINDS["int"] | KINDS["float"] | KINDS["category"]


def policy_of(shards: int, kind: str) -> Policy:
    document = {
        "table": "cuts",
        "attributes": KINDS[kind],
        "sensitive": {"name": "d", "values": list("abcdefgh")},
        "privacy": {"k": 3, "l": 2},
        "scale": {"shards": shards},
    }
    return build_policy(document, {"zip.csv": ZIP.encode()}, b"")


def draw_people(policy: Policy, count: int, seed: int = 1) -> list[tuple[Any, ...]]:
    draw = random.Random(seed)

    def value(kind: str) -> int | float:
        return round(draw.uniform(-5, 5), 3) if kind == "float" else draw.randrange(100 if kind == "int" else 12)

    return [tuple(value(attribute.kind) for attribute in policy.attributes) for _ in range(count)]


def cuts_of(policy: Policy, people: list[tuple[Any, ...]]) -> Cuts:
    sample = Sample(policy, Keyed(b"secret", "cuts"))
    sample.add((f"p{number}", qid) for number, qid in enumerate(people))
    found = sample.cuts()
    assert found is not None
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shards", [2, 3, 5, 8, 12])
def test_every_shard_has_about_as_many_people(kind: str, shards: int) -> None:
    policy = policy_of(shards, kind)
    people = draw_people(policy, 5000)
    cuts = cuts_of(policy, people)
    cuts.check_invariants()
    assert cuts.shards == shards
    homes = cuts.homes(people)
    counts = np.bincount(homes, minlength=shards)
    # Twelve labels cannot be dealt out evenly.
    assert counts.min() > (0 if kind == "category" else 0.8 * 5000 / shards)
    assert homes.tolist() == [cuts.shard_of_qid(qid) for qid in people] == cuts.shards_of(people)


@pytest.mark.parametrize("kind", KINDS)
def test_everybody_lies_in_the_region_of_their_shard_and_in_no_other(kind: str) -> None:
    policy = policy_of(7, kind)
    people = draw_people(policy, 2000)
    cuts = cuts_of(policy, people)
    for qid, home in zip(people, cuts.shards_of(people), strict=True):
        inside = [shard for shard in range(7) if _is_inside(policy, qid, cuts.box(shard))]
        assert inside == [home]


def _is_inside(policy: Policy, qid: tuple[Any, ...], box: Any) -> bool:
    return all(
        low <= value and (value < high or (attribute.kind == "float" and value == high == attribute.high))
        for attribute, value, (low, high) in zip(policy.attributes, qid, box, strict=True)
    )


def test_cuts_are_read_back_as_they_were_written() -> None:
    policy = policy_of(6, "all")
    cuts = cuts_of(policy, draw_people(policy, 1000))
    again = Cuts.read(policy, json.loads(json.dumps(cuts.record())))
    assert again.record() == cuts.record()
    assert again.regions_json() == cuts.regions_json()
    assert list(json.loads(cuts.regions_json()[0])) == ["age", "weight", "zip"]


def test_a_cut_in_a_float_is_round_and_nobodys_value() -> None:
    policy = policy_of(4, "float")
    people = draw_people(policy, 3000)
    cuts = cuts_of(policy, people)
    places = {cut for _, _, cut, *_ in cuts.record()}
    assert not places & {qid[0] for qid in people}
    assert all(len(repr(place)) < 8 for place in places)


def test_a_category_is_cut_between_siblings() -> None:
    policy = policy_of(3, "category")
    cuts = cuts_of(policy, draw_people(policy, 3000))
    labels = [json.loads(region)["zip"]["nodes"] for region in cuts.regions_json()]
    assert all(label.endswith("*") for region in labels for label in region)


def test_cuts_depend_on_the_smallest_tags_alone_and_not_on_how_they_were_gathered() -> None:
    policy = policy_of(4, "all")
    people = [(f"p{number}", qid) for number, qid in enumerate(draw_people(policy, 500))]
    found = []
    for size in (500, 7):
        sample = Sample(policy, Keyed(b"secret", "cuts"))
        for start in range(0, 500, size):
            sample.add(people[::-1][start : start + size])
        cuts = sample.cuts()
        assert cuts is not None
        found.append(cuts.record())
    assert found[0] == found[1]


def test_people_who_are_all_alike_make_empty_shards() -> None:
    for kind in KINDS:
        policy = policy_of(12, kind)
        people = draw_people(policy, 1) * people_needed(policy)
        cuts = cuts_of(policy, people)
        assert cuts.shards == 12
        assert len(set(cuts.shards_of(people))) == 1


def test_there_are_no_cuts_while_people_are_too_few() -> None:
    policy = policy_of(5, "int")
    sample = Sample(policy, Keyed(b"secret", "cuts"))
    sample.add((f"p{number}", (number,)) for number in range(99))
    assert (people_needed(policy), sample.cuts()) == (100, None)
    sample.add([("one more", (7,))])
    assert sample.cuts() is not None


def test_a_region_without_room_for_half_of_the_shards_gets_fewer() -> None:
    """Twelve labels and twelve shards: every shard is one label, however uneven the hierarchy."""
    uneven = "a;*\n" + "".join(f"b{rank};b;*\n" for rank in range(11))
    document = {
        "table": "cuts",
        "attributes": {"zip": {"type": "category", "hierarchy": "zip.csv"}},
        "sensitive": {"name": "d", "values": list("abcdefgh")},
        "privacy": {"k": 3, "l": 2},
    }
    policy = replace(build_policy(document, {"zip.csv": uneven.encode()}, b""), shards=12)
    cuts = cuts_of(policy, [(number % 12,) for number in range(people_needed(policy))])
    assert sorted(cuts.shards_of([(code,) for code in range(12)])) == list(range(12))
