"""Handles: what people are called by from the door of intake on, and that nothing published depends on it."""

import hashlib
import json
from base64 import b64decode
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from shoal.core.events.intake import Intake
from shoal.core.plan import plan
from shoal.core.randomness import Keyed, KeyedByHandle
from shoal.core.state import State
from shoal.streams.intake.taker import Taker, make_taker
from tests.support.engines.series import churn, clinic_policy, window_between

IDS = ["p1", "p2", "p\u00e4tient", "x" * 512]


def test_a_handle_is_the_same_for_one_secret_and_table_and_another_for_any_other() -> None:
    handles = {Keyed(secret, table).handle("p1") for secret in (b"one", b"two") for table in ("a", "b")}
    assert len(handles) == 4
    assert Keyed(b"one", "a").handle("p1") == KeyedByHandle(b"one", "a").handle("p1")
    assert len({*map(Keyed(b"one", "a").handle, IDS)}) == len(IDS)


def test_a_handle_is_short_and_holds_nothing_of_the_id_nor_a_plain_hash_of_it() -> None:
    for person in IDS:
        handle = Keyed(b"secret", "t").handle(person)
        assert len(handle) == 20
        plain = [
            hashlib.new(name, person.encode()).digest() for name in ("md5", "sha1", "sha256", "blake2b", "blake2s")
        ]
        assert not any(b64decode(handle)[start : start + 4] in digest for start in range(12) for digest in plain)


def test_tags_and_case_ids_are_the_same_by_id_and_by_handle() -> None:
    by_id, by_handle = Keyed(b"secret", "t"), KeyedByHandle(b"secret", "t")
    handles = [by_id.handle(person) for person in IDS]
    assert np.array_equal(by_id.tags(IDS), by_handle.tags(handles))
    assert by_handle.tags([]).size == 0
    for person, handle in zip(IDS, handles, strict=True):
        assert by_id.case_id(person, 3) == by_handle.case_id(handle, 3)


@pytest.mark.parametrize("values", ["lasting", "redrawn"])
def test_releases_are_the_same_bytes_by_id_and_by_handle(values: str) -> None:
    policy = clinic_policy(k=4, values=values)
    by_id, by_handle = State.empty(policy, b"secret"), State.empty(policy, b"secret", KeyedByHandle)
    tables = [{}, *churn(120, 4)]
    for number, (before, after) in enumerate(pairwise(tables), 1):
        window = window_between(policy, before, after)
        called = {by_id.keyed.handle(person): delta for person, delta in window.deltas[0].items()}
        one = plan(by_id, window, policy, number)
        other = plan(by_handle, window._replace(deltas={0: called}), policy, number)
        assert one.release.manifest == other.release.manifest
        by_id.apply(one.change)
        by_handle.apply(other.change)
    assert not {*by_handle.people.roster()} & {*by_id.people.roster()}


@pytest.mark.parametrize("make", [Taker, make_taker])
def test_no_id_goes_further_than_the_door_of_intake(make: Callable[[Intake], Taker]) -> None:
    intake = Intake(clinic_policy(), {}, handle_of=Keyed(b"secret", "clinic").handle)
    qid = {"age": 3, "weight": 20.0, "sex": "male", "zip": "z11"}
    events = [{"op": "insert", "id": f"canary-{number}", "qid": qid, "sensitive": "hiv"} for number in range(9)]
    events += [{"op": op, "id": "canary-1"} for op in ("update", "delete", "deregister")]
    events += [{"op": "update", "id": "canary-2", "qid": {"age": 4}}, {"op": "register", "id": "canary-10", "qid": qid}]
    taker = make(intake)
    assert [taker.take(json.dumps(event).encode(), (), number) for number, event in enumerate(events)] == [None] * 14
    assert "canary" not in repr((intake.roster, intake.window, intake.touched, intake.held, intake.drain()))
    assert {*intake.window} == {Keyed(b"secret", "clinic").handle(f"canary-{number}") for number in (*range(9), 10)}
