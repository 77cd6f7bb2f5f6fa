"""Folders with permanent values through `shoal audit`'s own reading: cohorts files, verdicts, and what is refused."""

import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from shoal.core.audit import Stored, Truth
from shoal.core.audit.attack.worlds import linked_fraction
from shoal.core.audit.criteria.exposure import Exposures, Standing, shares_of
from shoal.core.audit.finding import Findings
from shoal.core.audit.permanent.learned import draw_of, enumerate_worlds
from shoal.core.audit.reading.published import ABOVE_PERMANENT, Group, ReleaseReader
from shoal.core.policy.hierarchy import parse_hierarchy
from shoal.core.policy.policy import Sensitive
from shoal.streams.errors import InputError
from shoal.streams.files.audit import audit
from tests.support.engines.audited import Bench, Nobody, sentences
from tests.support.engines.scarcity import HIV, Clinic, scarce_policy


class Folder:
    """Takes what a publisher would show the auditor, and writes it where `shoal audit` looks."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def see(
        self, stored: Stored, members: Sequence[Sequence[str]], _truth: Truth, _at: None, cohorts: dict[str, Any]
    ) -> None:
        folder = self._bench.out / f"release-{stored.number:04}"
        folder.mkdir(parents=True)
        (folder / "cells.jsonl").write_bytes(stored.cells)
        (folder / "groups.jsonl").write_bytes(stored.groups)
        (folder / "manifest.json").write_bytes(stored.manifest)
        private = self._bench.private
        private.mkdir(exist_ok=True)
        lines = (json.dumps(dict(zip(("id", "group", "cell"), member, strict=True))) for member in members)
        (private / f"release-{stored.number:04}.members.jsonl").write_text("".join(f"{line}\n" for line in lines))
        (private / f"release-{stored.number:04}.cohorts.json").write_text(json.dumps(cohorts))
        self.add({"op": "release"})

    def add(self, event: dict[str, Any]) -> None:
        with self._bench.events.open("a") as file:
            file.write(json.dumps(event) + "\n")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Five releases of a clinic that keeps every promise, with absences, deaths and suppressions."""
    bench = Bench(tmp_path, scarce_policy(2, "all"))
    folder = Folder(bench)

    class Told(Truth):
        def take(self, raw: bytes) -> Any:
            folder.add(json.loads(raw))
            return super().take(raw)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.support.engines.audited.Truth", Told)
        clinic = Clinic(bench.policy, 7, away=0.3, death=0.1, illness=0.15)
    clinic.desk.auditor = folder  # type: ignore[assignment]  # it is only ever shown releases
    clinic.run(5)
    return bench


def about_g3(report: Any) -> set[str]:
    return {sentence for sentence in sentences(report) if sentence.startswith("G3") or "cohorts" in sentence}


def test_a_folder_that_keeps_the_promise_is_audited_privately_and_publicly(bench: Bench) -> None:
    report = bench.audit()
    assert about_g3(report) == set()
    assert report.private is not None
    assert report.private.permanent is not None
    assert report.private.permanent.holders > 0
    assert report.private.permanent.suppressed
    assert about_g3(bench.audit_publicly()) == set()


def test_cohorts_that_were_changed_are_found_out(bench: Bench) -> None:
    for path in bench.private.glob("*.cohorts.json"):
        cohorts = json.loads(path.read_text())
        path.write_text(json.dumps({HIV: [cohort[:-1] for cohort in cohorts[HIV]]}))
    assert "G3: a group's owners of each cohort are not as many as the times it shows the value" in about_g3(
        bench.audit()
    )


@pytest.mark.parametrize(
    "content", [None, "", "[]", '{"hiv": ["p1"]}', '{"hiv": [[1]]}', '{"hiv": [], "hiv": []}', "{"]
)
def test_cohorts_that_cannot_be_read_are_wrong_input(bench: Bench, content: str | None) -> None:
    path = bench.private / "release-0002.cohorts.json"
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(InputError, match=r"release-0002\.cohorts\.json"):
        audit(bench.policy, bench.out, bench.private, [bench.events], b"key", Nobody())


HIERARCHY = parse_hierarchy("flu;lung;*\nasthma;lung;*\nhiv;blood;*\nanaemia;blood;*\n")
SENSITIVE = Sensitive("disease", HIERARCHY, frozenset(), frozenset({HIERARCHY.leaf_code["hiv"]}))


def shown(**values: int) -> dict[int, int]:
    return {HIERARCHY.node_of[label]: count for label, count in values.items()}


def test_n_leaves_out_permanent_values_and_stars_and_is_at_least_1() -> None:
    flu = HIERARCHY.leaf_code["flu"]
    assert shares_of(6, {**shown(flu=1, asthma=3, hiv=1), 0: 1}, SENSITIVE)[flu] == Fraction(1, 4)
    assert shares_of(2, {**shown(flu=1, hiv=2), 0: 1}, SENSITIVE)[flu] == 1


def test_worlds_in_which_permanent_values_sit_on_others_agree_with_the_formula() -> None:
    flu = HIERARCHY.leaf_code["flu"]
    group = Group("g1", 1, 1, (), shown(flu=1, asthma=2, hiv=1), 0, 4)
    draw = draw_of(HIERARCHY, group, SENSITIVE.permanent)
    assert draw is not None
    assert linked_fraction([draw], frozenset({flu})) == shares_of(4, group.shown, SENSITIVE)[flu] == Fraction(1, 3)
    exposures = Exposures(SENSITIVE)
    exposures.add(group, ["p"])
    standing = Standing(Fraction(1, 3), Fraction(1, 2), (flu,), ("g1",))
    assert enumerate_worlds(exposures, standing) == Fraction(1, 3)


def test_a_node_between_a_permanent_value_and_the_root_is_never_shown() -> None:
    policy = scarce_policy(2, 0)
    findings = Findings()
    reader = ReleaseReader(replace(policy, sensitive=SENSITIVE), findings)
    for number, label in enumerate(("lung", "hiv", "*", "blood"), start=1):
        head = {"table": "clinic", "release": number}
        cell = {**head, "cell": "c1", "region": {"age": {"min": 0, "max": 99}}, "people": 2}
        record = {
            **head, "group": "g1", "formed": number, "changed": number, "cells": {"c1": 2},
            "sensitive": {label: 2}, "counterfeits": 0,
        }  # fmt: skip
        cells, groups = (json.dumps(one).encode() + b"\n" for one in (cell, record))
        reader.read(Stored(number, cells, groups, b""))
    assert [b.releases for b in findings if b.sentence == ABOVE_PERMANENT] == [[4]]
