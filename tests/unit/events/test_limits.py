"""What an event may carry at most: everything larger is rejected at the door, with a reason, and quickly."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shoal.core.audit.reading.names import is_name
from shoal.core.events.event import Reason, Reject, wrong_id, wrong_time
from shoal.core.events.guard import SMALLEST_BOUND, read_guard
from shoal.core.events.intake import Intake
from shoal.core.overlap.external import ExternalGroup, parse_external
from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.policy import Policy, build_policy
from shoal.core.state import State
from tests.support.engines.audited import Bench, sentences

VALUES = ["flu", "asthma", "ulcer", "gout", "cold", "angina"]


def policy_of(**privacy: Any) -> Policy:
    document = {
        "table": "t",
        "attributes": {"age": {"type": "int", "min": 0, "max": 99}, "sex": {"type": "category", "values": ["f", "m"]}},
        "sensitive": {"name": "disease", "values": VALUES},
        "privacy": {"k": 2, "l": 2, **privacy},
    }
    return build_policy(document, {}, b"")


POLICY = policy_of()


def insert(number: int, **fields: Any) -> dict[str, Any]:
    qid = {"age": number % 100, "sex": "fm"[number % 2]}
    return {"op": "insert", "id": f"p{number}", "qid": qid, "sensitive": VALUES[number % 6], **fields}


def external(count: object, **region: Any) -> dict[str, Any]:
    group = {"region": region, "sensitive": {"flu": count, "gout": 1}}
    return {"op": "external", "publisher": "clinic", "groups": [group]}


def release_after(*events: dict[str, Any], policy: Policy = POLICY) -> Plan:
    """The release of sixty people, and of these events, all of which are accepted."""
    intake = Intake(policy, {})
    others: list[ExternalGroup] = []
    for number in range(60):
        assert intake.take(insert(number)) is None
    for event in events:
        if event["op"] == "external":
            read = parse_external(event, policy)
            assert not isinstance(read, Reject)
            others += read.groups
        else:
            assert intake.take(event) is None
    return plan(State.empty(policy, b"secret"), Window(None, {0: intake.cut()}, others), policy, 1)


@pytest.mark.parametrize("count", [2**31, 2**63 - 1, 2**63, 2**64, 10**400, 1_000_000_001, 1_000_000_000])
def test_a_count_that_no_publisher_can_have_is_out_of_domain(count: int) -> None:
    """The last one alone would do; with the group's other values it is too many."""
    assert parse_external(external(count), POLICY) == Reject(Reason.OUT_OF_DOMAIN, "external", "groups.sensitive")


def test_the_largest_count_makes_a_release() -> None:
    made = release_after(external(999_999_999), external(999_999_998, age={"min": 0, "max": 50}))
    assert b'"release":1' in made.release.manifest


@pytest.mark.parametrize("bound", [5e-324, 1e-17, 1e-16, 1e-12, 1e-9])
@pytest.mark.parametrize(
    "privacy",
    [
        {},
        {"values": "redrawn", "strategy": {"name": "adaptive"}},
        {"values": "redrawn", "strategy": {"name": "constant-ratio"}},
        {"values": "redrawn", "strategy": {"name": "geometric", "alpha": 3}},
    ],
)
def test_a_bound_that_cannot_be_kept_hides_what_it_guards(
    bound: float, privacy: dict[str, Any], tmp_path: Path
) -> None:
    bench = Bench(tmp_path, policy_of(**privacy))
    guard = {"node": "*", "bound": bound}
    events = [insert(number) for number in range(60)]
    events += [{"op": "update", "id": f"p{number}", "guard": guard} for number in (3, 9)]
    events += [{"op": "release"}, {"op": "delete", "id": "p1"}, {"op": "update", "id": "p3", "sensitive": "gout"}]
    report = bench.replay_events(iter([*events, {"op": "release"}])).audit()
    assert sentences(report) == set()
    assert report.private is not None
    assert report.private.guarded >= 1


def test_a_bound_is_read_as_one_that_arithmetic_can_keep() -> None:
    assert read_guard({"node": "flu", "bound": 1e-300}, POLICY) == (1, SMALLEST_BOUND)
    assert read_guard({"node": "flu", "bound": 0.25}, POLICY) == (1, 0.25)


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of the quickest of three runs: the machine may be busy."""
    taken = []
    for _ in range(3):
        began = time.thread_time()
        work()
        taken.append(time.thread_time() - began)
    return min(taken)


def test_a_list_longer_than_the_attribute_has_leaves_is_rejected_unread() -> None:
    intake, event = Intake(POLICY, {}), insert(0, sensitive=["no such value"] * 7)
    assert intake.take(event) == Reject(Reason.TOO_LONG, "insert", "sensitive")
    assert intake.take(insert(0, sensitive=VALUES)) is None


def test_a_long_list_costs_in_proportion() -> None:
    """Twenty times the values took four hundred times as long."""
    labels = [f"v{number}" for number in range(60_000)]
    document = {
        "table": "t",
        "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
        "sensitive": {"name": "disease", "values": labels},
        "privacy": {"k": 2, "l": 2},
    }
    intake = Intake(build_policy(document, {}, b""), {})

    def take(count: int) -> Reject | None:
        intake.roster.clear()
        return intake.take({"op": "insert", "id": "p", "qid": {"age": 1}, "sensitive": labels[:count]})

    assert take(60_000) is None
    assert seconds(lambda: take(60_000)) < 100 * seconds(lambda: take(3_000))


def test_a_list_of_nodes_longer_than_the_hierarchy_is_rejected() -> None:
    event = external(1, sex={"nodes": ["f", "m", "f", "m"]})
    assert parse_external(event, POLICY) == Reject(Reason.TOO_LONG, "external", "groups.region.sex")


def test_a_time_has_few_digits() -> None:
    assert wrong_time("2024-05-01T10:00:00." + "0" * 40) is None
    assert wrong_time("2024-05-01T10:00:00." + "0" * 1_000_000) is Reason.BAD_TIME


@pytest.mark.parametrize(
    "name", ["p", "é", "e\u0301", "p\x00", "p" * 512, "p" * 513, "é" * 256, "é" * 257, "\ud800", ""]
)
def test_the_auditor_calls_the_same_texts_names(name: str) -> None:
    assert is_name(name) == (wrong_id(name) is None)
