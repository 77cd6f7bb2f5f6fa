"""People as they are stored: the quick way writes what the plain way does, and everything comes back."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgpack
import numpy as np
import pytest

from shoal.core.events.intake import Intake
from shoal.core.plan import Plan, Window, plan
from shoal.core.state import RECORDS, State
from shoal.core.stored import read_person, write_person
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.store.encryption import make_cipher
from shoal.streams.store.records import CHUNK, Counts, decode, encode, pack, person_of, status_of, unpack
from shoal.streams.store.records import KINDS as RECORD_KINDS
from shoal.streams.store.staging import SealedRelease, counts_after, outbox_fields, read_outbox
from tests.fault.scene import KINDS
from tests.integration.mixture import MSGPACK, Mixture, Sent
from tests.support.services.table import write_policy


class Step(NamedTuple):
    """A release, and the state that it was planned from and is not applied to yet."""

    state: State
    made: Plan


def _series(folder: Path, kind: str) -> Iterator[Step]:
    """Four releases of a lively table on which everything is promised at once."""
    policy = load_policy(write_policy(folder, kind, **KINDS[kind]))
    mixture = Mixture(11, 300, KINDS[kind]["sensitive"])
    state, intake = State.empty(policy, b"secret"), Intake(policy, {})
    for number in range(1, 5):
        for record in mixture.take(400):
            if record.is_good:
                assert intake.take(_event(record), number) is None
        made = plan(state, Window(None, {0: intake.cut()}), policy, number)
        yield Step(state, made)
        state.apply(made.change)


def _event(record: Sent) -> object:
    assert record.value is not None
    is_packed = record.headers.get("content-type") == MSGPACK
    return msgpack.unpackb(record.value) if is_packed else json.loads(record.value)


@pytest.fixture(params=KINDS)
def steps(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Step]:
    return _series(tmp_path, request.param)


def test_whole_columns_are_written_as_one_person_is_and_read_back(steps: Iterator[Step]) -> None:
    lengths: set[int] = set()
    for state, _ in steps:
        stored = list(state.stored_people(np.arange(len(state.people))))
        people = dict(state.records("people"))
        assert stored == [(person_id, write_person(person)) for person_id, person in people.items()]
        for person_id, record in stored:
            assert read_person(unpack(pack(record))) == person_of(pack(record)) == people[person_id]
            assert status_of(pack(record)) == people[person_id].status
        lengths |= {len(record) for _, record in stored}
    assert 12 in lengths, "nobody has a guard, a permanent value or a trail"
    assert lengths & {6, 8}, "nobody is like most others"


def test_what_a_release_changed_is_read_one_by_one_and_counted_without_reading_the_rest(steps: Iterator[Step]) -> None:
    counts = Counts()
    for state, made in steps:
        changed = dict(made.change.people.items())
        for person_id, person in changed.items():
            assert made.change.people[person_id] == person
        for person_id in set(dict(state.records("people"))) - set(changed):
            with pytest.raises(KeyError):
                made.change.people[person_id]
        before, counts = counts, counts_after(made, state, counts)
        new = sum(state.people.row(person_id) is None for person_id in changed)
        assert counts.people - before.people == new
    assert counts == Counts(*(len(list(state.records(name))) for name in RECORDS))


@pytest.mark.parametrize("secret", [None, b"state key"], ids=["plain", "encrypted"])
def test_records_come_back_from_the_chunks_in_which_they_are_written(
    steps: Iterator[Step], secret: bytes | None
) -> None:
    cipher = make_cipher(secret)
    for state, _ in steps:
        for kind in RECORD_KINDS:
            hashes: dict[str, dict[bytes, bytes]] = {}
            for chunk in encode(kind, kind.of_state(state), cipher):
                assert 0 < len(chunk.fields) <= 2 * CHUNK
                hashes.setdefault(chunk.key, {}).update(zip(chunk.fields[::2], chunk.fields[1::2], strict=True))
            assert hashes.keys() <= set(kind.keys(1))
            assert dict(decode(kind, hashes.values(), cipher)) == dict(state.records(kind.name))


def test_a_sealed_manifest_comes_back_from_the_outbox() -> None:
    written = SealedRelease(number=3, manifest=b"{}", headers=[("kind", b"x"), ("trigger", b"7")])
    fields = outbox_fields(written)
    assert read_outbox(3, reversed(list(zip(fields[::2], fields[1::2], strict=True)))) == written
    assert read_outbox(3, [(b"header:kind", b"x")]) is None
