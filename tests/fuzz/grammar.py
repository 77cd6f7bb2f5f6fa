"""What fuzzed inputs are made of: right documents for a policy, and the ways in which they are damaged.

Damage keeps the structure where it can: a number becomes another number, a list grows, a field is lost. An input that
is only noise is rejected by the first reader, and says nothing about those behind it.
"""

import copy
import json
from random import Random
from typing import Any

import msgpack

from shoal.core.policy.policy import Attribute, Policy

NUMBERS = (
    0,
    -1,
    1,
    2,
    7,
    120,
    2**31,
    2**53,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63),
    10**30,
    0.5,
    -0.0,
    1e-16,
    5e-324,
    1e308,
)
TEXTS = (
    "", " ", "p", "*", "\x00", "\x1b[31mp", "p\u2028", "e\u0301", "é", "\ud800", "\ud800\udc00", "🦈", "\u202ep",
    "a" * 600, "é" * 300, "9" * 20, "-0", "0x1", "flu;cold", '"', "\\", "poison: [", "1e5",
)  # fmt: skip
WORDS: tuple[Any, ...] = (True, False, None, [], {}, [[]], [{}], {"": 0}, [None])
TIMES = (
    "2026-01-01", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-W01-1",
    "2026-01-01T24:00:00", "20260101T000000", "2026-01-01T00:00:00." + "0" * 30, "now", "2026-01-01T00:00:00+99:99",
)  # fmt: skip


def atom(rnd: Random) -> Any:
    """Something small that may stand anywhere."""
    return copy.deepcopy(rnd.choice(rnd.choice((NUMBERS, TEXTS, WORDS, TIMES))))


def value_of(attribute: Attribute, rnd: Random) -> Any:
    """A value that an attribute may have."""
    if attribute.hierarchy is not None:
        return rnd.choice(attribute.hierarchy.leaves)
    if attribute.kind == "int":
        return rnd.randint(int(attribute.low), int(attribute.high))
    return rnd.choice((attribute.low, attribute.high, rnd.uniform(attribute.low, attribute.high)))


def qid_of(policy: Policy, rnd: Random) -> dict[str, Any]:
    return {attribute.name: value_of(attribute, rnd) for attribute in policy.attributes}


def values_of(policy: Policy, rnd: Random) -> Any:
    leaves = policy.sensitive.hierarchy.leaves
    return rnd.choice(leaves) if rnd.random() < 0.7 else rnd.sample(leaves, min(len(leaves), rnd.randint(1, 3)))


def guard_of(policy: Policy, rnd: Random) -> Any:
    node = rnd.choice(policy.sensitive.hierarchy.labels)
    bound = rnd.choice((1 / policy.l, 0.1, 0.01, 1e-9, 1e-12, 1e-16, 1e-300, 5e-324))
    own = {"node": node, "bound": bound}
    return rnd.choice((node, "", None, {"node": None}, {"node": node}, own, own, own))


def event_of(policy: Policy, rnd: Random, people: int) -> dict[str, Any]:
    """An event that is right by itself; whether it fits what happened before is another matter."""
    ops = {"insert": 6, "upsert": 2, "update": 5, "delete": 2, "register": 1, "deregister": 1, "erase": 1}
    op = rnd.choices(tuple(ops), tuple(ops.values()))[0]
    event: dict[str, Any] = {"op": op, "id": f"p{rnd.randrange(people)}"}
    if op in ("insert", "upsert", "register"):
        event["qid"] = qid_of(policy, rnd)
    if op in ("insert", "upsert"):
        event["sensitive"] = values_of(policy, rnd)
    if op == "update":
        whole = qid_of(policy, rnd)
        event["qid"] = {name: whole[name] for name in rnd.sample(sorted(whole), rnd.randint(0, len(whole)))}
        if rnd.random() < 0.5:
            event["sensitive"] = values_of(policy, rnd)
    if op in ("insert", "upsert", "update") and rnd.random() < 0.25:
        event["guard"] = guard_of(policy, rnd)
    if rnd.random() < 0.05:
        event["at"] = rnd.choice(TIMES)
    return event


def region_of(policy: Policy, rnd: Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for attribute in policy.attributes:
        if rnd.random() < 0.5:
            continue
        if attribute.hierarchy is not None:
            labels = attribute.hierarchy.labels
            found[attribute.name] = {"nodes": rnd.sample(labels, rnd.randint(1, min(4, len(labels))))}
        else:
            low, high = sorted((value_of(attribute, rnd), value_of(attribute, rnd)))
            end = "max" if attribute.kind == "int" or rnd.random() < 0.5 else "below"
            found[attribute.name] = {"min": low, end: high}
    return found


def external_of(policy: Policy, rnd: Random) -> dict[str, Any]:
    """What another publisher has released."""
    labels = policy.sensitive.hierarchy.labels
    groups = []
    for _ in range(rnd.choice((1, 1, 2, 5))):
        shown = {label: rnd.choice((1, 1, 2, 3, 10**9 // 8)) for label in rnd.sample(labels, min(len(labels), 4))}
        where: dict[str, Any] = {"region": region_of(policy, rnd)}
        if rnd.random() < 0.3:
            where = {"regions": [region_of(policy, rnd) for _ in range(rnd.randint(1, 3))]}
        groups.append({**where, "sensitive": shown})
    return {"op": "external", "publisher": f"clinic-{rnd.randrange(3)}", "groups": groups}


def trigger_of(rnd: Random) -> dict[str, Any]:
    if rnd.random() < 0.4:
        topic = rnd.choice(("events", "external", "triggers", "releases"))
        return {"op": "skip", "topic": topic, "partition": rnd.randrange(4), "offset": rnd.randrange(99)}
    found: dict[str, Any] = {"op": "release"}
    if rnd.random() < 0.6:
        found["at"] = rnd.choice(TIMES)
    if rnd.random() < 0.4:
        found["release"] = rnd.choice((1, 2, 0, 10**20))
    return found


def damage(document: Any, rnd: Random) -> Any:
    """A copy with one thing wrong, or right in another way."""
    found = copy.deepcopy(document)
    place, key = _any_place(found, rnd)
    if place is None:
        return atom(rnd)
    match rnd.randrange(8):
        case 0:
            place[key] = atom(rnd)
        case 1 | 2:
            place[key] = _like(place[key], rnd)
        case 3:
            del place[key]
        case 4 if isinstance(place, dict):
            place[rnd.choice(TEXTS)] = atom(rnd)
        case 5:
            place[key] = [copy.deepcopy(place[key])] * rnd.choice((1, 2, 9, 70))
        case 6:
            place[key] = str(place[key]) if not isinstance(place[key], str) else len(place[key])
        case _:
            place[key] = {rnd.choice(("node", "min", "nodes", "x")): place[key]}
    return found


def _like(value: Any, rnd: Random) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rnd.choice((*NUMBERS, value + 1, -value, value * 2, value / 3))
    if isinstance(value, str):
        return rnd.choice((*TEXTS, *TIMES, value + "x", value[:-1], value.upper(), value + " "))
    if isinstance(value, list):
        return rnd.choice(([], value * 2, value[::-1], value[1:]))
    return dict(sorted(value.items(), reverse=True)) if isinstance(value, dict) else value


def _any_place(document: Any, rnd: Random) -> tuple[Any, Any]:
    """A container in a document and a key in it."""
    places: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        here = waiting.pop()
        keys = list(here) if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ()
        places += [(here, key) for key in keys]
        waiting += [here[key] for key in keys]
    return rnd.choice(places) if places else (None, None)


def damage_bytes(raw: bytes, rnd: Random) -> bytes:
    """Bytes with something wrong among them."""
    at = rnd.randrange(len(raw) + 1)
    match rnd.randrange(8):
        case 0:
            return raw[:at]
        case 1:
            return raw[:at] + bytes((rnd.randrange(256),)) + raw[at + 1 :]
        case 2:
            return (
                raw[:at]
                + rnd.choice((b"NaN", b"Infinity", b"1e999", b"\xff", b"\x00", b'"a":1,', b"]", b"{"))
                + raw[at:]
            )
        case 3:
            return b"\xef\xbb\xbf" + raw
        case 4:
            return raw + rnd.choice((b" ", b"\n", raw, b"1"))
        case 5:
            return raw.replace(b'"id"', b'"op"', 1)
        case 6:
            depth = rnd.choice((10, 2_000, 100_000))
            return b"[" * depth + raw + b"]" * depth
        case _:
            return raw[: at // 2] + raw[at:]


def write(document: Any, rnd: Random) -> tuple[bytes, list[tuple[str, bytes]]]:
    """A document as a record's value and headers."""
    if rnd.random() < 0.3:
        try:
            return msgpack.packb(document), [("content-type", b"application/msgpack")]
        except (OverflowError, ValueError, TypeError):
            pass
    text = json.dumps(document, ensure_ascii=rnd.random() < 0.5)
    headers = [("content-type", b"application/json")] if rnd.random() < 0.5 else []
    return text.encode(errors="surrogatepass"), headers


def damage_headers(headers: list[tuple[str, bytes]], rnd: Random) -> list[tuple[str, bytes]]:
    values = (b"", b"application/json", b"APPLICATION/MSGPACK", b"text/plain", b"\xff\xfe", b"x" * 5_000)
    names = ("content-type", "Content-Type", "", "kind", "reason", "offset", "\u202e")
    return [*headers, *((rnd.choice(names), rnd.choice(values)) for _ in range(rnd.randint(1, 4)))]
