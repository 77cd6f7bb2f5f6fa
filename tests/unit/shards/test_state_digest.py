"""The digest of a shard's state: after any release it is the one from scratch, and no other state has it."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from shoal.core.plan import Window
from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed
from shoal.core.shards.table import Table, TablePlan, people_needed
from shoal.core.state import RECORDS, Change, State, WholeChange
from shoal.streams.store.records import KINDS, RecordKind, pack
from shoal.streams.store.state_digest import StateDigest, proofs_of
from tests.support.engines.sharded import KEY, Ward
from tests.support.histories.changing import draw_changing, draw_policies
from tests.support.histories.mixed import draw_policy
from tests.support.histories.moving import draw_moving


class Digesting(Ward):
    """Follows every release of every shard, and compares with what the records come to: in memory, and read back."""

    drifted = 0
    changed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.digests = [StateDigest(state.keyed) for state in self.table.states]
        self._check()

    def plan(self, window: Window, changed: Policy | None = None) -> TablePlan:
        made = super().plan(window, changed)
        for digest, state, part in zip(self.digests, self.table.states, made.parts, strict=True):
            digest.follow(part.change, state)
        return made

    def _release(self, changed: Policy | None = None) -> None:
        super()._release(changed)
        self._check()

    def _check(self) -> None:
        for digest, state in zip(self.digests, self.table.states, strict=True):
            records = {name: list(state.records(name)) for name in RECORDS}
            read = State.load(self.table.policy, KEY, state.meta, Keyed, state.shard, **records)
            assert StateDigest.of_state(read).value == StateDigest.of_state(state).value
            self.drifted += digest.value != StateDigest.of_state(state).value
            self.changed += digest.value != bytes(32)


def live(seed: int, shards: int = 3) -> Digesting:
    draw = random.Random(seed)
    policy = replace(draw_policy(draw), shards=shards)
    ward = Digesting(policy)
    ward.live(draw_moving(draw, policy, people_needed(policy) * 2, 6))
    return ward


@pytest.mark.parametrize("seed", range(300, 312))
def test_after_many_random_changes_the_digest_is_the_one_from_scratch(seed: int) -> None:
    ward = live(seed)
    assert ward.drifted == 0
    assert ward.changed > 10
    assert ward.moves > 20


@pytest.mark.parametrize("seed", range(6))
def test_over_a_change_of_policy_the_digest_is_the_one_from_scratch(seed: int) -> None:
    draw = random.Random(seed)
    policies = draw_policies(draw, 3)
    ward = Digesting(*policies)
    ward.live(draw_changing(draw, policies))
    assert ward.drifted == 0
    assert ward.changed > 5
    assert ward.table.policy is policies[1]


def test_a_digest_that_forgets_what_was_replaced_or_who_left_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong twins of the test above."""
    right = RecordKind.of_replaced

    def without_departed(kind: RecordKind, change: Change, before: State) -> Any:
        return right(kind, replace(change, departed=()), before)

    def only_departed(kind: RecordKind, change: Change, before: State) -> Any:
        return right(kind, replace(change, people={}, signatures={}, lasting_groups={}, bonds={}), before)

    for wrong in (without_departed, only_departed):
        monkeypatch.setattr(RecordKind, "of_replaced", wrong)
        assert live(300).drifted > 5


@pytest.fixture(scope="module")
def table() -> Table:
    return live(300).table


def test_a_record_that_is_changed_left_off_there_twice_or_of_another_kind_is_noticed(table: Table) -> None:
    state = max(table.states, key=lambda one: len(one.people.here()))
    right = StateDigest.of_state(state).value
    for kind in KINDS:
        records = [(identity, pack(record)) for identity, record in kind.of_state(state)]
        if not records:
            continue
        for wrong in _spoilt(kind.name, records):
            digest = StateDigest(state.keyed)
            for other in KINDS:
                if other is not kind:
                    digest.add_all(other.name, other.of_state(state))
            for name, found in wrong:
                digest.add_packed(name, found)
            assert digest.value != right, kind.name


def _spoilt(name: str, records: list[tuple[Any, bytes]]) -> Iterator[list[tuple[str, list[tuple[Any, bytes]]]]]:
    (identity, packed), others = records[0], records[1:]
    last = bytes([packed[-1] ^ 1])
    yield [(name, [(identity, packed[:-1] + last), *others])]
    yield [(name, others)]
    yield [(name, [*records, records[0]])]
    yield [(name, others), ("externals" if name != "externals" else "bonds", [records[0]])]
    if others:  # two records, each in the other's place
        at = next((at for at, (_, other) in enumerate(others) if other != packed), None)
        if at is not None:
            exchanged = [*others[:at], (others[at][0], packed), *others[at + 1 :]]
            yield [(name, [(identity, others[at][1]), *exchanged])]


def test_a_change_that_has_all_records_begins_anew(table: Table) -> None:
    state = table.states[0]
    records: dict[str, Any] = {name: dict(state.records(name)) for name in RECORDS}
    whole = WholeChange(state.meta, **records)
    digest = StateDigest(state.keyed, b"\7" * 32)
    digest.follow(whole, state)
    assert digest.value == StateDigest.of_state(state).value


def test_people_who_are_given_one_by_one_are_replaced_too(table: Table) -> None:
    """A change that was stored and read back has its people in a dictionary."""
    state = table.states[1]
    handle, person = next(iter(state.records("people")))
    gone = next(iter(set(state.people.ids(state.people.here())) - {handle}))
    change = Change(state.meta, {handle: person._replace(since=99)}, departed=(gone,))
    digest = StateDigest.of_state(state)
    digest.follow(change, state)
    records = {name: dict(state.records(name)) for name in RECORDS}
    records["people"][handle] = person._replace(since=99)
    del records["people"][gone]
    read = State.load(state.policy, KEY, state.meta, Keyed, state.shard, **{n: r.items() for n, r in records.items()})
    assert StateDigest.of_state(read).value == digest.value


def test_a_proof_is_another_one_for_any_other_secret_release_shard_record_of_the_shard_or_cuts() -> None:
    """So it shows nobody whether a state changed, and a snapshot's head is proved with its records."""
    digest, keyed = b"\1" * 32, Keyed(b"secret", "ward")
    right = proofs_of(keyed, 7, [digest, digest], [b"meta", b"meta"], b"cuts")
    found = [
        *right,
        *proofs_of(keyed, 8, [digest], [b"meta"], b"cuts"),
        *proofs_of(keyed, 7, [b"\2" * 32], [b"meta"], b"cuts"),
        *proofs_of(keyed, 7, [digest], [b"other"], b"cuts"),
        *proofs_of(keyed, 7, [digest], [b"meta"], None),
        *proofs_of(Keyed(b"another", "ward"), 7, [digest], [b"meta"], b"cuts"),
        *proofs_of(Keyed(b"secret", "other ward"), 7, [digest], [b"meta"], b"cuts"),
    ]
    assert len(set(found)) == len(found)
    assert right == proofs_of(keyed, 7, [digest, digest], [b"meta", b"meta"], b"cuts")
    assert digest.hex() not in found
