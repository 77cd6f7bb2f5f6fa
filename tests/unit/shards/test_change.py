"""A change of policy in a sharded table in memory: new labels beside a shard's own, and the root above them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.core.errors import CoreError
from shoal.core.events.intake import Intake
from shoal.core.frozen import freeze, thaw
from shoal.core.plan import Window
from shoal.core.policy.policy import Policy
from shoal.core.randomness import KeyedByHandle
from shoal.core.shards.table import Table, TablePlan
from shoal.core.state import RECORDS, State
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.files.shards.handles import StoredHandles, freeze_handles
from tests.support.services.table import DISEASES, write_policy

SECRET = b"secret"
ZIPS = [f"z{number}" for number in range(12)]
NEW = ["n0", "n1"]


def policy_of(folder: Path, zips: list[str], shards: int = 3) -> Policy:
    attributes = {"zip": {"type": "category", "values": zips}}
    return load_policy(write_policy(folder, "town", attributes=attributes, scale={"shards": shards}))


def insert(number: int, zips: list[str]) -> dict[str, Any]:
    sensitive = [DISEASES[number % len(DISEASES)]]
    return {"op": "insert", "id": f"p{number}", "qid": {"zip": zips[number % len(zips)]}, "sensitive": sensitive}


def release(table: Table, people: range, zips: list[str], changed: Policy | None = None) -> TablePlan:
    handle_of = table.states[0].keyed.handle
    intake = Intake(table.policy, table.roster(), held=table.holdings(), handle_of=handle_of)
    for number in people:
        assert intake.take(insert(number, zips)) is None
    made = table.plan(Window(None, {0: intake.cut()}, ()), table.meta.release + 1, changed)
    table.apply(made)
    table.check_invariants()
    return made


def test_a_shard_with_new_labels_beside_its_own_has_another_root_and_is_read_back_with_it(tmp_path: Path) -> None:
    table, after = Table.empty(policy_of(tmp_path, ZIPS), SECRET, KeyedByHandle), policy_of(tmp_path, ZIPS + NEW)
    release(table, range(120), ZIPS)
    release(table, range(120, 130), ZIPS, after)
    assert [state.tree.root != 0 for state in table.states] == [False, False, True], "new labels come behind the last"
    release(table, range(200, 260), NEW)
    last = table.states[-1]
    rows = last.people.here()
    records: dict[str, Any] = {name: last.records(name) for name in RECORDS}
    loaded = State.load(after, last.keyed, last.meta, KeyedByHandle, last.shard, **records)
    frozen = thaw(after, last.keyed, freeze(last), StoredHandles(*freeze_handles(last.people.all_ids)))
    for again in (loaded, frozen):
        assert again.tree.root == last.tree.root
        assert dict(again.tree.records()) == dict(last.tree.records())
        again.tree.check_invariants()
    assert np.array_equal(frozen.people.leaf[rows], last.people.leaf[rows])
    assert last.tree.region_json(0) != last.tree.region_json(last.tree.root)
    assert NEW[0] not in last.tree.region_json(0), "node 0 keeps its region"


def test_another_number_of_shards_is_refused(tmp_path: Path) -> None:
    table = Table.empty(policy_of(tmp_path, ZIPS), SECRET, KeyedByHandle)
    with pytest.raises(CoreError, match=r"scale\.shards: 3 to 4: refused"):
        release(table, range(120), ZIPS, policy_of(tmp_path, ZIPS, shards=4))
