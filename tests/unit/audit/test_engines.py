"""Engines that are known to be wrong, run through the real `replay`: the auditor must say what is wrong with each."""

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.policy import Policy
from shoal.core.published.manifest import PublishedRelease
from shoal.core.randomness import Keyed
from shoal.core.state import Change, State
from tests.support.engines.audited import Bench, Edit, Engine, engine_that, engine_under, republish, sentences
from tests.support.engines.series import churn, clinic_policy
from tests.support.judges.series import Table

TABLES: list[Table] = churn(100, 4, "secret-")


class ById(Keyed):
    """Calls people by their ids, as the tables of these engines do."""

    def handle(self, person_id: str) -> str:
        return person_id


def run(path: Path, policy: Policy, engine: Engine | None, monkeypatch: pytest.MonkeyPatch) -> Bench:
    path.mkdir(exist_ok=True)
    monkeypatch.setattr("shoal.streams.files.replay_series.KeyedByHandle", ById)
    if engine is not None:
        monkeypatch.setattr("shoal.streams.files.replay_series.plan", engine)
    return Bench(path, policy).replay(TABLES)


def forgetful(
    state: State, window: Window, policy: Policy, number: int, changed: Policy | None, next_group: int | None
) -> Plan:
    """Starts from nothing at every release but the number: a new tree, new groups, an empty ledger."""
    deltas = {person: person_delta(policy, TABLES[number - 1], person) for person in TABLES[number - 1]}
    meta = state.meta if next_group is None else state.meta._replace(next_group=next_group)
    planned = plan(State.load(policy, b"secret", meta), Window(window.at, {0: deltas}), policy, number, changed)
    return replace(planned, change=Change(planned.change.meta, {}, {}, {}))


def person_delta(policy: Policy, table: Table, person: str) -> Any:
    from tests.support.engines.series import encode

    return encode(policy, *table[person])


class Redrawing:
    """Keeps nothing from release to release; what it publishes looks right one by one."""

    def __init__(self, next_group: int | None = None) -> None:
        self._next_group = next_group

    def __call__(self, state: State, window: Window, policy: Policy, number: int, changed: Policy | None) -> Plan:
        return forgetful(state, window, policy, number, changed, self._next_group)


def ignoring_changes(state: State, window: Window, policy: Policy, number: int, changed: Policy | None) -> Plan:
    """Carries groups over although people in them have other values now."""
    known = TABLES[number - 2] if number > 1 else {}
    deltas = {person: delta for person, delta in window.deltas[0].items() if person not in known}
    return plan(state, Window(window.at, {0: deltas}), policy, number, changed)


def bounding_boxes(state: State, window: Window, policy: Policy, number: int, changed: Policy | None) -> Plan:
    """Publishes the bounding box of the people in a cell instead of the tree's region."""
    planned = plan(state, window, policy, number, changed)
    columns: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for person, _, cell in planned.release.members:
        for name, value in TABLES[number - 1][person][0].items():
            columns[cell][name].append(value)

    def draw_boxes(_number: int, records: list[dict[str, Any]], _manifest: dict[str, Any]) -> None:
        for cell in (record for record in records if "cell" in record):
            for name in ("age", "weight"):
                values = columns[cell["cell"]][name]
                end = "below" if "below" in cell["region"][name] else "max"
                if min(values) < max(values):
                    cell["region"][name] = {"min": min(values), end: max(values)}

    return republish(planned, draw_boxes)


def edit(records_edit: Callable[[dict[str, Any]], None] | None = None, **manifest_values: Any) -> Edit:
    def change(_number: int, records: list[dict[str, Any]], manifest: dict[str, Any]) -> None:
        for record in records if records_edit is not None else ():
            if "group" in record:
                records_edit(record)  # type: ignore[misc]  # it is not None here
        manifest.update(manifest_values)

    return change


def name_rows(record: dict[str, Any]) -> None:
    cases = [case for cases in record["cells"].values() for case in cases]
    record["sensitive"] = {label: [count, *cases[:count]] for label, count in record["sensitive"].items()}


def list_rows(record: dict[str, Any]) -> None:
    cases = [case for cases in record["cells"].values() for case in cases]
    record["rows"] = [dict.fromkeys(cases[:1], next(iter(record["sensitive"])))]


def swap_a_value(record: dict[str, Any]) -> None:
    hidden = next(iter(record["sensitive"]))
    record["sensitive"] = {
        ("gout" if hidden == "lupus" else "lupus") if label == hidden else label: count
        for label, count in record["sensitive"].items()
    }


def test_the_real_engine_keeps_every_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for case_ids in (False, True):
        bench = run(tmp_path / str(case_ids), clinic_policy(k=4, l=3, case_ids=case_ids), None, monkeypatch)
        assert sentences(bench.audit()) == set()
        assert sentences(bench.audit_publicly()) == set()


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        (engine_under(l=1.2), {"G2: a person's breach of a value is over 1/l"}),
        (engine_under(k=1, headroom=0), {"G1: a region is shared by fewer than k people"}),
        (ignoring_changes, {"G2: a group is carried although one of its people changed"}),
        (
            Redrawing(),
            {
                "G1: a person's region is not inside their earlier one",
                "G1: two people once told apart share a region",
                "G1: a region overlaps another without one holding the other",
            },
        ),
        (Redrawing(next_group=1), {"G6: a group id is used again"}),
        (
            bounding_boxes,
            {"G1: a cell has two regions", "G1: a person's region is not inside their earlier one"},
        ),
        (engine_that(edit(max_breach=0.1)), {"G2: max_breach in a manifest is not the largest breach so far"}),
        (engine_that(edit(max_breach=0.9)), {"G2: max_breach in a manifest is over the bound"}),
        (engine_that(edit(bound=0.9)), {"G2: the bound in a manifest is not the policy's 1/l"}),
        (engine_that(edit(previous="0" * 64)), {"G6: a manifest does not name the one before it"}),
        (engine_that(edit(policy="0" * 64)), {"G6: a manifest names another policy"}),
        (engine_that(edit(swap_a_value)), {"contract: a group shows values that are not its people's"}),
        (engine_that(edit(withheld=7)), {"contract: people, withheld and unsampled do not add up to everyone present"}),
        (engine_that(edit(published_at="2026-01-01")), {"contract: published_at is not the time of the request"}),
    ],
    ids=[
        "groups too small", "cells under k", "carries changed groups", "a new tree each time", "group ids from 1 again",
        "bounding boxes", "max_breach too small", "max_breach too large", "another bound", "no chain", "another policy",
        "values nobody has", "forgets the withheld", "makes up a time",
    ],
)  # fmt: skip
def test_an_engine_that_is_wrong_is_found_out(
    engine: Engine, expected: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = run(tmp_path, clinic_policy(k=4, l=3, headroom=0), engine, monkeypatch).audit()
    assert expected <= sentences(report)
    assert not report.is_kept


@pytest.mark.parametrize(
    ("record_edit", "expected"),
    [
        (name_rows, "contract: a case id stands beside a value"),
        (list_rows, "contract: a record has a field that the contract does not name"),
    ],
)
def test_an_engine_that_ties_case_ids_to_values_is_found_out_by_anyone(
    record_edit: Callable[[dict[str, Any]], None], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.streams.files.replay.ReleaseFolder.stage", write_without_tables)
    policy = clinic_policy(k=4, l=3, case_ids=True)
    bench = run(tmp_path, policy, engine_that(edit(record_edit)), monkeypatch)
    assert expected in sentences(bench.audit_publicly())


def write_without_tables(self: Any, release: PublishedRelease) -> None:
    """Publishes a release whose values are no counts, of which no spreadsheet could be made."""
    staged: Path = self.staged(release.number)
    staged.mkdir(parents=True)
    for name, records in (("cells.jsonl", release.cells), ("groups.jsonl", release.groups)):
        (staged / name).write_bytes(b"".join(record + b"\n" for record in records))
    (staged / "manifest.json").write_bytes(release.manifest)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda _self, person, _since: f"{person}-{len(person)}", "does not follow one person"),
        (lambda _self, person, _since: person, "is a source id"),
        (lambda _self, person, since: f"{person}/{since}", None),
    ],
    ids=["kept through a move", "the source id", "another after a move"],
)
def test_case_ids_that_follow_people_too_far_are_found_out(
    make: Callable[..., str], expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.core.randomness.Keyed.case_id", make)
    found = sentences(run(tmp_path, clinic_policy(k=4, l=3, case_ids=True), None, monkeypatch).audit())
    assert not found if expected is None else any(expected in sentence for sentence in found)


def test_a_plain_hash_of_an_id_is_no_case_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hashlib import sha256

    monkeypatch.setattr(
        "shoal.core.randomness.Keyed.case_id", lambda _self, p, _since: sha256(p.encode()).hexdigest()[:16]
    )
    bench = run(tmp_path, clinic_policy(k=4, l=3, case_ids=True), None, monkeypatch)
    assert "contract: a case id is a source id, or a plain hash of one" in sentences(bench.audit())


def test_groups_redrawn_although_nobody_changed_are_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "TABLES", [TABLES[0]] * 2)
    found = sentences(run(tmp_path, clinic_policy(k=4, l=3), Redrawing(), monkeypatch).audit())
    assert "contract: a group is broken although nobody in it changed and no cell of it closed" in found


def test_what_an_outsider_can_see_of_a_new_tree_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = run(tmp_path, clinic_policy(k=4, l=3, headroom=0), Redrawing(), monkeypatch)
    assert "G1: a region overlaps another without one holding the other" in sentences(bench.audit_publicly())


def test_no_id_of_anyone_is_in_a_report_that_finds_everything_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shoal.core.audit import write_report

    report = run(tmp_path, clinic_policy(k=4, l=3, headroom=0), Redrawing(next_group=1), monkeypatch).audit()
    written = "\n".join(write_report(report)) + json.dumps(report.as_json())
    assert "secret" not in written
    assert report.private is not None
    assert len({one.pseudonym for one in report.private.worst}) == 10


def test_a_weaker_policy_is_kept_by_the_same_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the wrong engines above: what they keep is what they were run under."""
    policy = replace(clinic_policy(k=4, l=3, headroom=0), l=1.2)
    assert sentences(run(tmp_path, policy, None, monkeypatch).audit()) == set()
