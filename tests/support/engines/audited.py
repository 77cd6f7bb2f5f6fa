"""Folders to audit: made by the real `replay` from true tables, or written by hand as a paper has them."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

from shoal.core.audit import Auditor, Report, Stored, Truth
from shoal.core.audit.model.redrawn import RedrawnModel
from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.policy import Policy
from shoal.core.release import Release
from shoal.core.state import State
from shoal.streams.files.audit import audit
from shoal.streams.files.replay import Job, replay
from tests.support.engines.series import named
from tests.support.judges.series import Table


class Nobody:
    """Watches and says nothing."""

    def note(self, sentence: str) -> None: ...

    def begin(self, size_bytes: int | None) -> None: ...

    def read(self, size_bytes: int) -> None: ...

    def released(self, number: int) -> None: ...

    def audited(self, number: int) -> None: ...


def events_between(tables: Sequence[Table]) -> Iterator[dict[str, Any]]:
    """Events that lead from table to table, with a request for a release after each."""
    before: Table = {}
    for table in tables:
        for person in sorted(before.keys() - table.keys()):
            yield {"op": "delete", "id": person}
        for person, (qid, values, *guards) in sorted(table.items()):
            record: dict[str, Any] = {"qid": qid, "sensitive": sorted(values)}
            for guard in guards:
                record["guard"] = guard if guard == "" else {"node": None} if guard is None else named(*guard)
            if person not in before:
                yield {"op": "insert", "id": person, **record}
            elif before[person] != table[person]:
                yield {"op": "update", "id": person, **record}
        yield {"op": "release"}
        before = table


@dataclass
class Bench:
    """A place to replay and audit in."""

    path: Path
    policy: Policy

    @property
    def out(self) -> Path:
        return self.path / "out"

    @property
    def private(self) -> Path:
        return self.path / "private"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    def replay(self, tables: Sequence[Table]) -> "Bench":
        return self.replay_events(events_between(tables))

    def replay_events(self, events: Iterator[dict[str, Any]]) -> "Bench":
        self.events.write_text("".join(json.dumps(event) + "\n" for event in events))
        replay(Job(self.policy, str(self.events), self.out, self.private, None, b"secret"), Nobody())
        return self

    def audit(self) -> Report:
        return audit(self.policy, self.out, self.private, [self.events], b"key", Nobody())

    def audit_publicly(self) -> Report:
        return audit(self.policy, self.out, None, [], b"key", Nobody())


def redrawn(auditor: Auditor) -> RedrawnModel:
    """What an auditor of a redrawn table keeps."""
    assert isinstance(auditor.model, RedrawnModel)
    return auditor.model


def sentences(report: Report) -> set[str]:
    return {f"{broken.promise}: {broken.sentence}" for broken in report.findings}


def tell_truth(truth: Truth, event: dict[str, Any]) -> None:
    """An event that has to be accepted."""
    taken = truth.accepted
    assert truth.take(json.dumps(event).encode()) is None
    assert truth.accepted == taken + 1, "the event was rejected"


def stored(release: Release) -> Stored:
    """A release as it would lie in a folder."""
    cells, groups = (b"".join(r + b"\n" for r in records) for records in (release.cells, release.groups))
    return Stored(release.number, cells, groups, release.manifest)


def audit_plans(policy: Policy, made: Iterator[tuple[Plan, Sequence[dict[str, Any]]]]) -> set[str]:
    """What the auditor says of releases, each with the events that led to it."""
    auditor, truth = Auditor(policy), Truth(policy)
    for number, (planned, events) in enumerate(made, 1):
        for event in events:
            truth.take(json.dumps(event).encode())
        truth.cut(number)
        release = planned.release
        auditor.see(stored(release), list(release.members), truth, None, release.cohorts)
    assert truth.rejected == []
    return sentences(auditor.report(b"key"))


Engine = Callable[[State, Window, Policy, int, Policy | None], Plan]
Edit = Callable[[int, list[dict[str, Any]], dict[str, Any]], None]  # number, records, manifest: edited in place


def republish(planned: Plan, change: Edit) -> Plan:
    """What an engine would have published that made `change`; the content's digest and the chain are kept right."""
    release = planned.release
    records, manifest = [json.loads(record) for record in release.records], json.loads(release.manifest)
    change(release.number, records, manifest)
    cells, groups = (
        tuple(json.dumps(record, separators=(",", ":")).encode() for record in records if kind in record)
        for kind in ("cell", "group")
    )
    manifest["content"] = sha256(b"".join(record + b"\n" for record in cells + groups)).hexdigest()
    sealed = json.dumps(manifest, separators=(",", ":")).encode()
    meta = planned.change.meta._replace(manifest=sha256(sealed).hexdigest())
    return replace(
        planned,
        release=Release(release.number, cells, groups, sealed, release.members),
        change=replace(planned.change, meta=meta),
    )


def engine_that(change: Edit) -> Engine:
    """The real engine, but for what it publishes."""

    def bad_plan(state: State, window: Window, policy: Policy, number: int, changed: Policy | None) -> Plan:
        return republish(plan(state, window, policy, number, changed), change)

    return bad_plan


def engine_under(**weaker: Any) -> Engine:
    """The real engine under a weaker policy than the one it says it keeps."""

    def bad_plan(state: State, window: Window, policy: Policy, number: int, changed: Policy | None) -> Plan:
        def claim(_number: int, _records: list[dict[str, Any]], manifest: dict[str, Any]) -> None:
            manifest["bound"] = 1 / policy.l

        return republish(plan(state, window, replace(policy, **weaker), number, changed), claim)

    return bad_plan


@dataclass
class ByHand:
    """Publishes groups as they are given, honestly counted, everyone in the region they are given or in one for all."""

    policy: Policy
    auditor: Auditor = field(init=False)
    truth: Truth = field(init=False)
    _number: int = 0
    _previous: str | None = None

    def __post_init__(self) -> None:
        self.auditor, self.truth = Auditor(self.policy), Truth(self.policy)

    def tell(self, *events: dict[str, Any]) -> None:
        for event in events:
            tell_truth(self.truth, event)

    def publish(
        self,
        groups: Mapping[str, tuple[int, Sequence[str], Mapping[str, int]]],
        regions: Mapping[str, tuple[str, dict[str, Any]]] | None = None,
        max_breach: float | Fraction = 0,
        cohorts: Mapping[str, Sequence[Sequence[str]]] | None = None,
    ) -> None:
        """One release: group -> (formed, people, values shown); person -> (cell, region); value -> cohorts."""
        self._number += 1
        self.truth.cut(self._number)
        everywhere = ("c0", {a.name: self._whole(a) for a in self.policy.attributes})
        records, members, rows = [], [], Counter[str]()
        places_of: dict[str, dict[str, Any]] = {}
        for name, (formed, people, shown) in groups.items():
            places = {person: (regions or {}).get(person, everywhere) for person in people}
            cells = Counter(cell for cell, _ in places.values())
            rows += cells
            members += [(person, name, cell) for person, (cell, _) in places.items()]
            places_of.update(places.values())
            head = {**self._head, "group": name, "formed": formed, "changed": formed}
            records.append({**head, "cells": dict(sorted(cells.items())), "sensitive": dict(shown), "counterfeits": 0})
        cell_records = [
            {**self._head, "cell": cell, "region": places_of[cell], "people": count} for cell, count in rows.items()
        ]
        texts = ["".join(json.dumps(one) + "\n" for one in listed).encode() for listed in (cell_records, records)]
        manifest = json.dumps(self._manifest(records, rows, b"".join(texts), float(max_breach))).encode()
        self._previous = sha256(manifest).hexdigest()
        self.auditor.see(Stored(self._number, texts[0], texts[1], manifest), members, self.truth, None, cohorts)

    @property
    def _head(self) -> dict[str, Any]:
        return {"table": self.policy.table, "release": self._number}

    def sentences(self) -> set[str]:
        """What is broken, but for the losses, which are not counted by hand."""
        found = sentences(self.auditor.report(b"key"))
        return {sentence for sentence in found if "ncp" not in sentence}

    def _manifest(
        self, records: list[dict[str, Any]], rows: Counter[str], content: bytes, max_breach: float
    ) -> dict[str, Any]:
        shown = Counter[str]()
        for record in records:
            shown.update(record["sensitive"])
        formed, hierarchy = sum(record["formed"] == self._number for record in records), self.policy.sensitive.hierarchy
        return {
            "table": self.policy.table,
            "release": self._number,
            "format": 1,
            "values": self.policy.values,
            "previous": self._previous,
            "policy": self.policy.digest,
            "content": sha256(content).hexdigest(),
            "engine": "by hand",
            "published_at": None,
            "people": rows.total(),
            "rows": rows.total(),
            "cells": len(rows),
            "groups": len(records),
            "formed": formed,
            "carried": len(records) - formed,
            "withheld": len(self.truth.present) - rows.total(),
            "unsampled": 0,
            "suppressed": shown["*"],
            "generalized": sum(n for label, n in shown.items() if label != "*" and label not in hierarchy.leaf_code),
            "counterfeits": 0,
            "max_breach": max_breach,
            "bound": 1 / self.policy.l,
            "loss": None
            if not records
            else {
                "ncp": 1.0,
                "discernibility": sum(n * n for n in rows.values()),
                "average_group": rows.total() / len(records),
            },
        }

    @staticmethod
    def _whole(attribute: Any) -> dict[str, Any]:
        if attribute.hierarchy is not None:
            return {"nodes": ["*"]}
        return {"min": attribute.low, "max": attribute.high}
