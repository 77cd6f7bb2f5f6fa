"""A desk that publishes rows of a lasting table as it is given them: honestly counted.

It decides nothing. What it is given is shown to an auditor and, if there is a folder, written for `shoal audit`.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from shoal.core.audit import Auditor, Stored, Truth
from shoal.core.policy.policy import Policy, build_policy
from shoal.core.published.manifest import Manifest, PublishedRelease
from shoal.streams.files.release_folder import ReleaseFolder
from tests.support.engines.audited import sentences, tell_truth

DISEASES = {
    "asthma": "lung", "copd": "lung", "ulcer": "belly", "gastritis": "belly",
    "gout": "joints", "lupus": "joints", "acne": "skin", "eczema": "skin",
    "flu": "infection", "cold": "infection", "hiv": "blood", "hepatitis": "blood",
}  # fmt: skip
TRANSIENT, OPEN, PERMANENT = tuple(DISEASES)[:8], ("flu", "cold"), ("hiv", "hepatitis")


def lasting_policy(k: int = 3, l: float = 2, **privacy: Any) -> Policy:
    """Eight transient values under four nodes, two open ones, two permanent ones; one attribute."""
    hierarchy = "".join(f"{leaf};{parent};*\n" for leaf, parent in DISEASES.items())
    sensitive = {"name": "disease", "hierarchy": "disease.csv", "open": list(OPEN), "permanent": list(PERMANENT)}
    document = {
        "table": "clinic",
        "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
        "sensitive": sensitive | privacy.pop("sensitive", {}),
        "privacy": {"k": k, "l": l, "values": "lasting", **privacy},
    }
    return build_policy(document, {"disease.csv": hierarchy.encode()}, b"clinic")


class Row(NamedTuple):
    """A row: whose, the value it stands for (None: none), and the cell."""

    person: str
    value: str | None
    cell: str


@dataclass
class Shown:
    """A group to be published: its rows, and the values it shows."""

    rows: list[Row]
    values: dict[str, int]
    vacant: int = 0


@dataclass
class LastingDesk:
    """Publishes groups by name. `cells` are the regions of cells: (first age, last age)."""

    policy: Policy
    cells: Mapping[str, tuple[int, int]]
    folder: Path | None = None
    auditor: Auditor = field(init=False)
    truth: Truth = field(init=False)
    number: int = 0
    manifest: dict[str, Any] = field(default_factory=dict)  # what the next manifest says instead of what is true
    _previous: str | None = None
    _last: dict[str, tuple[int, int, Shown]] = field(default_factory=dict)
    _formed: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.auditor, self.truth = Auditor(self.policy), Truth(self.policy)

    def tell(self, *events: dict[str, Any]) -> None:
        for event in events:
            tell_truth(self.truth, event)
            self._write_event(event)

    def publish(
        self,
        groups: Mapping[str, Shown],
        max_breach: float | Fraction = 0,
        cohorts: Mapping[str, Sequence[Sequence[str]]] | None = None,
        waiting: int = 0,
    ) -> None:
        """One release. A group that says what it said in the last one has not changed."""
        self.number += 1
        self.truth.cut(self.number)
        people: dict[str, set[str]] = defaultdict(set)
        head = {"table": self.policy.table, "release": self.number}
        records, last = [], {}
        for name, group in groups.items():
            for row in group.rows:
                people[row.cell].add(row.person)
            first = self._formed.setdefault(name, self.number)
            formed, changed, before = self._last.get(name, (first, self.number, group))
            if (sorted(before.rows, key=str), before.values, before.vacant) != (
                sorted(group.rows, key=str), group.values, group.vacant,
            ):  # fmt: skip
                changed = self.number
            last[name] = formed, changed, group
            cells = dict(sorted(Counter(row.cell for row in group.rows).items()))
            records.append(
                {**head, "group": name, "formed": formed, "changed": changed, "cells": cells}
                | {"sensitive": dict(group.values), "vacant": group.vacant}
            )
        self._last = last
        regions = [
            {**head, "cell": cell, "region": {"age": dict(zip(("min", "max"), self.cells[cell], strict=True))}}
            | {"people": len(mine)}
            for cell, mine in sorted(people.items())
        ]
        cells_text, groups_text = ([json.dumps(one).encode() for one in listed] for listed in (regions, records))
        texts = [b"".join(line + b"\n" for line in lines) for lines in (cells_text, groups_text)]
        stated = self._manifest(records, regions, sha256(b"".join(texts)).hexdigest(), float(max_breach)) | {
            "waiting": waiting
        }
        sealed = json.dumps(stated | self.manifest).encode()
        self._previous = sha256(sealed).hexdigest()
        members = [(row.person, name, row.cell, row.value) for name, group in groups.items() for row in group.rows]
        self._write(cells_text, groups_text, sealed, members, cohorts or {})
        self.auditor.see(Stored(self.number, texts[0], texts[1], sealed), members, self.truth, None, cohorts)

    def found(self) -> set[str]:
        """What is broken."""
        return sentences(self.auditor.report(b"key"))

    def _manifest(
        self, records: list[dict[str, Any]], regions: list[dict[str, Any]], content: str, max_breach: float
    ) -> dict[str, Any]:
        rows: Counter[str] = Counter()
        shown: Counter[str] = Counter()
        for record in records:
            rows.update(record["cells"])
            shown.update(record["sensitive"])
        leaves, people = self.policy.sensitive.hierarchy.leaf_code, sum(cell["people"] for cell in regions)
        spans = {cell["cell"]: cell["region"]["age"]["max"] - cell["region"]["age"]["min"] for cell in regions}
        return {
            "table": self.policy.table, "release": self.number, "format": 1, "values": "lasting",
            "previous": self._previous, "policy": self.policy.digest, "content": content, "engine": "by hand",
            "published_at": None, "people": people, "rows": rows.total(), "cells": len(regions),
            "groups": len(records), "formed": sum(record["formed"] == self.number for record in records),
            "carried": sum(record["changed"] < self.number for record in records),
            "withheld": len(self.truth.present) - people, "unsampled": 0, "suppressed": shown["*"],
            "generalized": sum(count for label, count in shown.items() if label != "*" and label not in leaves),
            "counterfeits": 0, "vacant": sum(record["vacant"] for record in records), "max_breach": max_breach,
            "bound": 1 / self.policy.l,
            "loss": None if not records else {
                "ncp": sum(spans[cell] * count for cell, count in rows.items()) / 99 / rows.total(),
                "discernibility": sum(count * count for count in rows.values()),
                "average_group": rows.total() / len(records),
            },
        }  # fmt: skip

    def _write_event(self, event: dict[str, Any]) -> None:
        if self.folder is not None:
            with (self.folder / "events.jsonl").open("a") as file:
                file.write(json.dumps(event) + "\n")

    def _write(
        self,
        cells: list[bytes],
        groups: list[bytes],
        manifest: bytes,
        members: list[tuple[str, str, str, str | None]],
        cohorts: Mapping[str, Sequence[Sequence[str]]],
    ) -> None:
        if self.folder is None:
            return
        out = ReleaseFolder(self.folder / "out", [attribute.name for attribute in self.policy.attributes])
        out.stage(PublishedRelease(self.number, tuple(cells), tuple(groups), Manifest(manifest)))
        out.show(self.number)
        private = self.folder / "private"
        private.mkdir(exist_ok=True)
        lines = (json.dumps(dict(zip(("id", "group", "cell", "value"), one, strict=True))) for one in members)
        (private / f"release-{self.number:04}.members.jsonl").write_text("".join(f"{line}\n" for line in lines))
        (private / f"release-{self.number:04}.cohorts.json").write_text(json.dumps(cohorts))
        self._write_event({"op": "release"})
