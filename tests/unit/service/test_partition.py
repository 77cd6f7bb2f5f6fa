"""A partition in memory: splitting at a barrier, what is rejected, and the log that a window is kept as."""

from pathlib import Path
from typing import Any

import pytest

from shoal.core.events.intake import Intake
from shoal.core.events.window import Delta, overlay
from shoal.core.policy.policy import Policy
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.intake.partition import _MOST_LOGGED, Partition
from shoal.streams.store.encryption import PlainText
from shoal.streams.store.keys import bucket_of
from shoal.streams.store.records import pack, unpack
from shoal.streams.store.window_log import by_bucket, pack_changes, read_changes
from tests.support.services.table import Taken, insert, write_policy


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return load_policy(write_policy(tmp_path, "t"))


def partition(policy: Policy) -> Partition:
    return Partition(0, "token", Intake(policy, {}))


def test_records_are_split_at_the_barrier_even_where_offsets_are_missing(policy: Policy) -> None:
    part = partition(policy)
    records = [Taken(offset, insert(offset)) for offset in (0, 1, 4, 7)]
    assert part.split(records, 8) == (records, (), 8)
    part.barrier = 3
    assert part.split(records, 8) == (records[:2], records[2:], 3)
    part.barrier = 8
    assert part.split(records, 8) == (records, (), 8)


def test_rejected_records_are_noted_and_kept_and_change_nothing(policy: Policy) -> None:
    part = partition(policy)
    batch = part.take([Taken(0, b"junk"), Taken(1, insert(1)), Taken(2, insert(1))], 3, PlainText())
    assert (batch.before, batch.after, batch.accepted) == (0, 3, 1)
    assert [unpack(note)[:2] for note in batch.rejects] == [(0, "bad-json"), (2, "already-present")]
    assert set(batch.rejected) == {0, 2}
    assert [unpack(change).keys() for change in batch.changes] == [{"p1"}]


def test_a_batch_without_effect_writes_nothing_to_the_window(policy: Policy) -> None:
    assert partition(policy).take([Taken(0, b"junk")], 1, PlainText()).changes == []


def test_the_log_of_a_window_comes_to_the_window(policy: Policy) -> None:
    part, found = partition(policy), dict[str, Delta]()
    moves = [{"op": "update", "id": f"p{at % 3}", "qid": {"age": at}} for at in range(20)]
    events = [insert(0), insert(1), insert(2), *moves, {"op": "delete", "id": "p1"}, insert(1)]
    for offset, event in enumerate(events):
        (change,) = part.take([Taken(offset, event)], offset + 1, PlainText()).changes
        assert len(unpack(change)) == 1, "an element has what its batch changed"
        overlay(found, unpack(change))
    assert found == part.intake.window


def test_a_log_that_outgrew_its_window_is_replaced_by_it(policy: Policy) -> None:
    part = partition(policy)
    part.take([Taken(0, insert(1)), Taken(1, insert(2))], 2, PlainText())
    part.logged = _MOST_LOGGED + 4
    changed = {"op": "update", "id": "p1", "qid": {"age": 3}}
    batch = part.take([Taken(2, changed)], 3, PlainText())
    assert batch.changes[0] == b"", "the rest replaces what is there"
    (found,) = map(unpack, batch.changes[1:])
    assert {person: (*delta[:3], [*delta[3]], delta[4]) for person, delta in found.items()} == {
        person: (*delta[:3], [*(delta[3] or ())], delta[4]) for person, delta in part.intake.window.items()
    }
    assert part.logged == 2


def test_ingest_spreads_people_over_buckets_as_desks_look_for_them() -> None:
    deltas: dict[str, Any] = {f"handle-{number}": number for number in range(200)}
    found = by_bucket(deltas, 3)
    assert {handle: bucket for bucket, here in enumerate(found) for handle in here} == {
        handle: bucket_of(handle.encode(), 3) for handle in deltas
    }
    assert all(found)


def test_an_element_of_the_log_comes_back_as_it_was_with_tuples_at_every_depth() -> None:
    deltas: dict[str, Delta] = {
        "somebody": (0, (None, 3, 2.5, "north"), None, None, (4, 0.25)),
        "a newcomer": (1, (1, 2, 0.0, ""), (7, 9), (17, 18), ()),
        "gone": (2, None, None, None, None),
    }
    found = read_changes(pack_changes(PlainText(), 1, 0, deltas))
    assert found == unpack(pack(deltas)) == deltas
