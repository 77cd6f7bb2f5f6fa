"""What a release says, put into records: rows of people or of entries, and only what changed is written anew."""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np
import pytest

from shoal.core.cells.tree import NodeRecord, Rows, Tree
from shoal.core.plan import plan
from shoal.core.publication import Earlier, Publication, PublishedRows, Written
from shoal.core.release import NO_VALUE, ShownGroup, Tail, plain_content, write_manifest
from shoal.core.state import State
from tests.support.engines.series import clinic_policy, crowd, window_between

POLICY = clinic_policy()
HIERARCHY = POLICY.sensitive.hierarchy
NOTHING = Earlier({}, 1)


def tree_of(*cuts: int) -> Tree:
    """A tree cut on age, each time in its last cell: c1 and c2, then c3 and c4 under c2, and so on."""
    tree = Tree(POLICY.attributes)
    for at, cut in enumerate(cuts):
        tree.put([(2 * at, NodeRecord(0, cut, 2 * at + 1, 2 * at + 2))])
    return tree


def rows_of(*rows: tuple[int, int, int], values: Sequence[int] | None = None) -> PublishedRows:
    """Rows as (person, group, cell)."""
    person, group, cell = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return PublishedRows(person, group, cell, None if values is None else np.array(values, dtype=np.int64))


def shows(formed: int, changed: int, counterfeits: int = 0, **values: int) -> ShownGroup:
    pairs = sorted((HIERARCHY.node_of[label], count) for label, count in values.items())
    return ShownGroup(formed, changed, tuple(pairs), counterfeits)


SIGNATURE = shows(1, 2, 1, asthma=1, gastritis=1, gout=1, ulcer=1)
GROUPS = {7: SIGNATURE, 9: shows(2, 2, flu=2), 12: ShownGroup(1, 1, ((0, 2),), 0)}
ENTRIES = rows_of((0, 7, 1), (0, 9, 1), (1, 7, 2), (2, 7, 2), (2, 9, 2), (2, 12, 2), (4, 12, 1))


def write(
    rows: PublishedRows,
    groups: dict[int, ShownGroup] = GROUPS,
    earlier: Earlier = NOTHING,
    changed: Sequence[int] = (),
    tree: Tree | None = None,
) -> Written:
    publication = Publication(POLICY, tree or tree_of(50), 2, lambda asked: [groups[one] for one in asked])
    return publication.write(rows, earlier, changed, withheld=3, unsampled=1)


def read(records: Sequence[bytes]) -> list[dict[str, Any]]:
    return [json.loads(record) for record in records]


def test_a_cell_counts_people_and_a_group_counts_rows() -> None:
    written = write(ENTRIES)
    assert [(cell["cell"], cell["people"]) for cell in read(written.cells)] == [("c1", 2), ("c2", 2)]
    assert {group["group"]: group["cells"] for group in read(written.groups)} == {
        "g7": {"c1": 1, "c2": 2},
        "g9": {"c1": 1, "c2": 1},
        "g12": {"c1": 1, "c2": 1},
    }
    tally = written.tally
    assert (tally.people, tally.rows, tally.cells, tally.groups) == (4, 7, 2, 3)
    assert (tally.formed, tally.carried, tally.withheld, tally.unsampled) == (1, 1, 3, 1)
    assert (tally.suppressed, tally.generalized, tally.counterfeits) == (2, 0, 1)
    assert written.loss is not None
    assert (written.loss.discernibility, written.loss.average_group) == (3 * 3 + 4 * 4, 7 / 3)


def test_records_and_manifest_have_the_fields_of_the_contract_in_its_order() -> None:
    written = write(ENTRIES)
    assert list(read(written.cells)[0]) == ["table", "release", "cell", "region", "people"]
    assert list(read(written.groups)[0]) == [
        "table", "release", "group", "formed", "changed", "cells", "sensitive", "counterfeits",
    ]  # fmt: skip
    digests = ("ab" * 32, None)
    raw = write_manifest(
        POLICY, digests, 2, None, plain_content(written.records), "2.0", None, written.tally, 0.25, written.loss
    )
    manifest = json.loads(raw)
    assert list(manifest) == [
        "table", "release", "format", "values", "previous", "policy", "content", "engine", "published_at",
        "people", "rows", "cells", "groups", "formed", "carried", "withheld", "unsampled", "suppressed",
        "waiting", "generalized", "counterfeits", "vacant", "max_breach", "bound", "loss",
    ]  # fmt: skip
    content = b"".join(record + b"\n" for record in (*written.cells, *written.groups))
    assert manifest["content"] == sha256(content).hexdigest()
    assert (manifest["format"], manifest["values"]) == (1, "redrawn")


def test_a_star_stands_last_and_a_raised_value_counts_as_generalized() -> None:
    raised = next(label for label in HIERARCHY.labels if label not in HIERARCHY.leaf_code and label != "*")
    group = shows(2, 2, **{raised: 2, "*": 1, "flu": 1})
    written = write(rows_of((0, 7, 1), (1, 7, 1)), {7: group})
    assert list(read(written.groups)[0]["sensitive"])[-1] == "*"
    assert (written.tally.suppressed, written.tally.generalized) == (1, 2)


def test_without_rows_there_are_no_records_and_no_loss() -> None:
    written = write(rows_of())
    assert (written.records, written.loss, written.tally.people, written.tally.groups) == ((), None, 0, 0)


def asked_for(rows: PublishedRows, earlier: Earlier, changed: Sequence[int] = (), tree: Tree | None = None) -> set[int]:
    """The groups whose records are written anew."""
    asked: set[int] = set()

    def describe(groups: Rows) -> list[ShownGroup]:
        asked.update(groups.tolist())
        return [GROUPS[group] for group in groups.tolist()]

    publication = Publication(POLICY, tree or tree_of(50), 2, describe)
    publication.write(rows, earlier, changed, withheld=0, unsampled=0)
    return asked


def test_only_new_changed_and_split_groups_are_written_anew() -> None:
    tails = write(ENTRIES).tails
    earlier = Earlier(tails, 3)
    assert asked_for(ENTRIES, NOTHING) == {7, 9, 12}
    assert asked_for(ENTRIES, earlier) == set()
    assert asked_for(ENTRIES, earlier, [9, 500]) == {9}
    assert asked_for(ENTRIES, Earlier({7: tails[7]}, 3)) == {9, 12}
    finer = rows_of((0, 7, 1), (0, 9, 1), (1, 7, 3), (2, 7, 3), (4, 12, 1), (5, 12, 1))
    assert asked_for(finer, earlier, tree=tree_of(50, 70)) == {7}


def test_what_is_kept_gives_the_bytes_that_writing_anew_would() -> None:
    first = write(ENTRIES)
    again = write(ENTRIES, earlier=Earlier(first.tails, 3))
    assert (again.records, again.tally, again.loss) == (first.records, first.tally, first.loss)


def test_a_tail_of_a_group_that_is_gone_is_not_kept() -> None:
    tails = write(ENTRIES).tails
    assert write(rows_of((0, 7, 1)), earlier=Earlier(tails, 3)).tails.keys() == {7}


def test_a_stale_tail_would_be_published_if_nobody_named_it() -> None:
    stale = Earlier({**write(ENTRIES).tails, 9: Tail(b'9","stale":true}', 1, 1, 0, 0, 0)}, 3)
    assert any(b"stale" in record for record in write(ENTRIES, earlier=stale).groups)
    assert not any(b"stale" in record for record in write(ENTRIES, earlier=stale, changed=[9]).groups)


def test_with_case_ids_a_cell_of_a_group_lists_them_sorted() -> None:
    def case_ids(rows: Rows) -> list[str]:
        return [f"x{9 - row}" for row in rows]

    publication = Publication(POLICY, tree_of(50), 2, lambda groups: [GROUPS[one] for one in groups], case_ids)
    written = publication.write(rows_of((0, 7, 1), (1, 7, 2), (2, 7, 2)), NOTHING, (), withheld=0, unsampled=0)
    assert read(written.groups)[0]["cells"] == {"c1": ["x9"], "c2": ["x7", "x8"]}


@pytest.mark.parametrize("is_lasting", [False, True])
def test_members_have_a_line_per_row_and_in_a_lasting_table_its_value(is_lasting: bool) -> None:
    asthma = HIERARCHY.leaf_code["asthma"]
    rows = rows_of((1, 7, 2), (0, 9, 1), (0, 7, 1), values=[asthma, NO_VALUE, asthma] if is_lasting else None)
    members = rows.members(lambda: [f"p\u00e4{row}" for row in rows.person.tolist()], HIERARCHY.leaves)
    lines = [json.loads(line) for line in members.lines()]
    expected: list[dict[str, Any]] = [
        {"id": "p\u00e40", "group": "g7", "cell": "c1", "value": "asthma"},
        {"id": "p\u00e40", "group": "g9", "cell": "c1", "value": None},
        {"id": "p\u00e41", "group": "g7", "cell": "c2", "value": "asthma"},
    ]
    if not is_lasting:
        expected = [{key: line[key] for key in ("id", "group", "cell")} for line in expected]
    assert lines == expected
    assert list(members) == [(line["id"], line["group"], line["cell"]) for line in expected]
    assert "p\u00e4" not in repr(members)


def test_members_keep_their_names_whatever_becomes_of_the_plan() -> None:
    """Two plans start from one state and only one of them is applied; both name their own people."""
    state = State.empty(POLICY, b"key")
    crowds = [{f"{name}{person}": record for person, record in crowd(30, 1).items()} for name in "ab"]
    one, other = (plan(state, window_between(POLICY, {}, people), POLICY, 1) for people in crowds)
    state.apply(one.change)
    for made, people in zip((one, other), crowds, strict=True):
        assert len(made.release.members) > 0
        assert {person for person, _, _ in made.release.members} <= people.keys()
