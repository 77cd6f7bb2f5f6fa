"""The short cut beside the strict way: whatever bytes are on the topic, both come to the same window and rejects."""

import json
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import msgpack
import pytest
from hypothesis import example, given, settings

from shoal.core.events.event import Reject
from shoal.core.events.intake import Intake
from shoal.core.policy.policy import Policy, build_policy
from shoal.streams.intake.formats import EventReader
from shoal.streams.intake.taker import QuickTaker, Taker, make_taker

POLICY = build_policy(
    {
        "table": "t",
        "attributes": {
            "age": {"type": "int", "min": -3, "max": 130},
            "body weight": {"type": "float", "min": -1, "max": 300},
            "ward": {"type": "category", "values": ["a", "7", "é:"]},
        },
        "sensitive": {"name": "disease", "values": ["flu", "ulcer", "8", "a:b"]},
        "privacy": {"values": "redrawn", "k": 2, "l": 2},
    },
    {},
    b"",
)
ROSTER = {"known": 1, "gone": 2, "never": 3}
HEADERS = {
    "msgpack": (("content-type", b"application/msgpack"),),
    "json": (),
    "said": (("content-type", b"application/json"),),
}
Pairs = list[tuple[Any, Any]]


def write_msgpack(pairs: Pairs) -> bytes:
    """A map with its keys in this order, as often as they are named."""
    packer = msgpack.Packer(autoreset=False)
    packer.pack_map_header(len(pairs))
    for key, value in pairs:
        packer.pack(key)
        if isinstance(value, Nested):
            packer.pack_map_pairs(value)
        else:
            packer.pack(value)
    return bytes(packer.bytes())


def write_json(pairs: Pairs) -> bytes:
    def text(value: Any) -> str:
        if isinstance(value, Nested):
            return "{" + ", ".join(f"{json.dumps(str(key))}: {text(inner)}" for key, inner in value) + "}"
        return json.dumps(value, ensure_ascii=False, default=repr)

    return text(Nested(pairs)).encode(errors="surrogatepass")


class Nested(list[tuple[Any, Any]]):
    """Pairs that become a map of their own."""


ids = st.sampled_from(["p", "q", "known", "gone", "never", "é", "urn:x:1", "ãqid\x83", "qid", "", "\\", '"', "x" * 40])
numbers = st.sampled_from([0, -0.0, 0.0, 1, -3, 130, 130.0, 131, 61.5, 300, 300.5, -1, 2**53 + 1, 2**63, 1e300, True])
texts = st.sampled_from(["a", "7", "é:", "flu", "ulcer", "8", "a:b", "*", "", "nobody"])
junk: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.floats() | st.text(max_size=3) | st.binary(max_size=3) | st.just([])
)
labels = texts | st.sampled_from([7, 8, 7.0, True])
times = st.sampled_from(["2024-05-01T10:00:00Z", "2024-05-01", "yesterday", "", None])
right: dict[str, st.SearchStrategy[Any]] = {
    "age": st.integers(-3, 130),
    "body weight": st.floats(-1, 300) | st.integers(-1, 300),
    "ward": st.sampled_from(["a", "7", "é:", 7]),
}


@st.composite
def qids(draw: st.DrawFn) -> Nested:
    """Every attribute as it should be, in some order; then perhaps something wrong."""
    pairs = Nested((name, draw(right[name])) for name in draw(st.permutations(list(right))))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(pairs)))
        match draw(st.sampled_from(["drop", "again", "other", "spoil"])):
            case "drop":
                del pairs[at : at + 1]
            case "again":
                pairs[at:at] = pairs[:1]
            case "other":
                pairs.insert(at, (draw(st.sampled_from(["age", "height", "qid", b"age", 7])), draw(numbers | labels)))
            case _:
                pairs[at : at + 1] = [(name, draw(numbers | labels | junk)) for name, _ in pairs[at : at + 1]]
    return pairs


@st.composite
def events(draw: st.DrawFn) -> Pairs:
    op = draw(st.sampled_from(["insert", "insert", "upsert", "update", "update", "delete"]))
    pairs: Pairs = [("op", op), ("id", draw(ids))]
    if op in ("insert", "upsert") or (op == "update" and draw(st.booleans())):
        pairs.append(("qid", draw(qids())))
    if op in ("insert", "upsert") or (op == "update" and draw(st.booleans())):
        pairs.append(("sensitive", draw(texts | st.lists(labels, max_size=3))))
    if draw(st.sampled_from([False, False, True])):
        pairs.append(("at", draw(times)))
    if draw(st.sampled_from([False, False, False, True])):
        pairs.insert(draw(st.integers(0, len(pairs))), draw(st.sampled_from([*pairs, ("guard", "flu"), ("x", 1)])))
    if draw(st.sampled_from([False, False, True])):
        pairs = draw(st.permutations(pairs))
    return pairs


@st.composite
def records(draw: st.DrawFn) -> tuple[bytes, str]:
    """An event as bytes, now and then damaged, and how it is said to be written."""
    form = draw(st.sampled_from(list(HEADERS)))
    raw = (write_msgpack if form == "msgpack" else write_json)(draw(events()))
    if draw(st.sampled_from([False, False, False, True])):
        at = draw(st.integers(0, len(raw)))
        raw = raw[:at] + draw(st.binary(max_size=2)) + raw[at + draw(st.integers(0, 2)) :]
    return raw, form


def outcome(make: Callable[[Intake], Taker], taken: list[tuple[bytes, str]]) -> tuple[list[Reject | None], str]:
    """What became of each record, and everything the intake holds then; as text, so that 1 is not 1.0, nor 0.0 -0.0."""
    intake = Intake(POLICY, dict(ROSTER))
    intake.without_home.add("known")
    taker = make(intake)
    refused = [taker.take(raw, HEADERS[form], offset) for offset, (raw, form) in enumerate(taken)]
    intake.check_invariants()
    return refused, repr((intake.window, intake.roster, intake.accepted, intake.drain()))


def one(pairs: Pairs) -> list[tuple[bytes, str]]:
    return [(write_msgpack(pairs), "msgpack"), (write_json(pairs), "json")]


QID = Nested([("age", 3), ("body weight", -0.0), ("ward", 7)])
INSERT: Pairs = [("op", "insert"), ("id", "p"), ("qid", QID), ("sensitive", ["ulcer", "flu", "flu"])]


@pytest.mark.slow
@example(one(INSERT))
@example(one([*INSERT, ("sensitive", "flu")]))
@example(one([*INSERT[:2], ("qid", Nested([*QID, ("age", 4)])), INSERT[3]]))
@example(one([INSERT[0], ("id", "ãqid\x83"), ("qid", Nested([*QID, ("age", 4)])), INSERT[3]]))
@example(one([*INSERT, ("at", "2024-05-01T10:00:00Z")]))
@example(one([("op", "update"), ("id", "known"), ("qid", Nested())]))
@example([(write_json(INSERT).replace(b'"p"', b'"a:b", "id": "\\u003a\\u003a"'), "json")])
@example([(write_msgpack(INSERT) + write_msgpack(INSERT), "msgpack"), (b"", "msgpack")])
@settings(max_examples=600, deadline=None)
@given(st.lists(records(), max_size=4))
def test_the_short_cut_does_what_the_strict_way_does(taken: list[tuple[bytes, str]]) -> None:
    assert outcome(make_taker, taken) == outcome(Taker, taken)


def test_a_short_cut_that_lets_a_key_come_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = one([*INSERT[:2], ("qid", Nested([*QID, ("age", 4)])), INSERT[3]])
    for name in ("msgpack_format", "json_format"):
        monkeypatch.setattr(f"shoal.streams.intake.{name}.has_once", lambda value, event: True)
    assert outcome(make_taker, twice) != outcome(Taker, twice)


@pytest.mark.parametrize("form", list(HEADERS))
def test_ordinary_events_take_the_short_cut(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventReader, "read", None)  # the strict way is closed
    write = write_msgpack if form == "msgpack" else write_json
    ordinary: list[Pairs] = [
        INSERT,
        [("id", "urn:q"), ("sensitive", "a:b"), ("op", "insert"), ("qid", Nested(reversed(QID)))],
        [("op", "upsert"), ("id", "p"), ("qid", QID), ("sensitive", "8")],
        [("op", "update"), ("id", "p"), ("qid", Nested([("ward", "a")]))],
        [("op", "update"), ("id", "p"), ("sensitive", "8"), ("at", "2024-05-01T10:00:00Z")],
        [("op", "delete"), ("id", "p")],
    ]
    if form != "msgpack":
        ordinary[1][1] = ("sensitive", "flu")  # a colon in a label is taken for a key
    intake = Intake(POLICY, {})
    taker = make_taker(intake)
    assert [taker.take(write(pairs), HEADERS[form], offset) for offset, pairs in enumerate(ordinary)] == [None] * 6
    assert intake.accepted == 6


@pytest.mark.parametrize(
    "attribute", [{"type": "int", "min": 0, "max": 2**53}, {"type": "float", "min": -1e17, "max": 0}]
)
def test_there_is_no_short_cut_where_ints_and_floats_would_not_compare_exactly(attribute: dict[str, Any]) -> None:
    document = {
        "table": "t",
        "attributes": {"size": attribute},
        "sensitive": {"name": "disease", "values": ["flu", "gout"]},
        "privacy": {"values": "redrawn", "k": 2, "l": 2},
    }
    assert type(make_taker(Intake(build_policy(document, {}, b""), {}))) is Taker
    assert type(make_taker(Intake(POLICY, {}))) is QuickTaker


def policy_of(name: str) -> Policy:
    document = {
        "table": "t",
        "attributes": {name: {"type": "int", "min": 0, "max": 9}},
        "sensitive": {"name": "disease", "values": ["flu", "gout"]},
        "privacy": {"values": "redrawn", "k": 2, "l": 2},
    }
    return build_policy(document, {}, b"")


@pytest.mark.parametrize("name", ["qid", "class", "a b", "É", "column_0", "op", 'a"b', "a\\b"])
def test_an_attribute_may_have_any_name(name: str) -> None:
    intake = Intake(policy_of(name), {})
    event = {"op": "insert", "id": "p", "qid": {name: 4}, "sensitive": "gout"}
    assert make_taker(intake).take(msgpack.packb(event), HEADERS["msgpack"], 0) is None
    assert intake.window["p"][:3] == (1, (4,), (1,))
