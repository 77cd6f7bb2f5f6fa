"""Runs the engine over a series of true tables and measures every release."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from shoal.core.events.window import GONE, PUT, Delta
from shoal.core.measure.loss import qid_loss, sensitive_loss
from shoal.core.measure.metrics import measure_release
from shoal.core.measure.query import Numbers, Query, count_true, estimate, query_error, truth_of
from shoal.core.measure.release_reader import ReleaseColumns, read_columns
from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.policy import Policy
from shoal.core.policy.strategy import Adaptive
from shoal.core.state import State
from tests.support.root import ROOT

CORE = ROOT / "core"

Codes = tuple[int | float, ...]
Record = tuple[Codes, tuple[int, ...]]  # quasi-identifiers and sorted values, in codes
Table = Mapping[str, Record]
Figures = dict[str, Any]
Watcher = Callable[[str], None]


@dataclass(frozen=True)
class Step:
    """One release of a series: the true table, what was made of it, and how long planning took."""

    number: int
    table: Table
    made: Plan
    published: ReleaseColumns
    plan_s: float

    @property
    def manifest(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(self.made.release.manifest)
        return found


def run(policy: Policy, tables: Iterable[Table], key: bytes = b"experiment") -> Iterator[Step]:
    """Plan and apply a release for each table in turn."""
    state = State.empty(policy, key)
    before: Table = {}
    for number, table in enumerate(tables, 1):
        window = Window(None, {0: changes(before, table)})
        begun = time.perf_counter()
        made = plan(state, window, policy, number)
        plan_s = time.perf_counter() - begun
        state.apply(made.change)
        yield Step(number, table, made, read_columns(policy, made.release.records), plan_s)
        before = table


def changes(before: Table, after: Table) -> dict[str, Delta]:
    """The window that turns one table into another, as `shoal.core.events.window` would fold it."""
    window: dict[str, Delta] = {
        person: (PUT, *record, None, None) for person, record in after.items() if before.get(person) != record
    }
    window |= {person: (GONE, None, None, None, None) for person in before if person not in after}
    return window


def measure(step: Step, queries: tuple[Query, ...] = ()) -> Figures:
    """The figures of one release; shares are of the people present, or of the values shown."""
    manifest, figures = step.manifest, measure_release(step.published)
    rows = step.published.rows
    values = int(step.published.shown_count.sum())
    present = len(step.table)
    found: Figures = {
        "release": step.number,
        "present": present,
        "rows": rows,
        "groups": len(step.published.group_rows),
        "formed": manifest["formed"],
        "carried": manifest["carried"],
        "withheld": manifest["withheld"],
        "withheld_share": manifest["withheld"] / present,
        "suppressed": manifest["suppressed"],
        "generalized": manifest["generalized"],
        "hidden_share": (manifest["suppressed"] + manifest["generalized"]) / values,
        "max_breach": manifest["max_breach"],
        "bound": manifest["bound"],
        "average_group": figures["average_group"],
        "median_group": figures["median_group"],
        "largest_group": figures["largest_group"],
        "ncp": figures["ncp"],
        "discernibility": figures["discernibility"],
        "information_loss_per_row": (qid_loss(step.published) + sensitive_loss(step.published)) / rows,
        "plan_s": step.plan_s,
    }
    if queries:
        truth = truth_of(step.published.policy, step.table.values())
        error = query_error(estimate(step.published, queries), count_true(truth, queries), len(truth.leaves))
        found |= {"query_error": error.mean, "query_error_median": error.median, "query_error_most": error.most}
    return found


def redrawn(policy: Policy, releases: int) -> Policy:
    """The policy of an example as a redrawn one without permanent values, with this many exposures foreseen."""
    sensitive = policy.sensitive._replace(permanent=frozenset())
    return replace(policy, values="redrawn", strategy=Adaptive(releases=releases), sensitive=sensitive)


def column(releases: Iterable[Figures], name: str) -> Numbers:
    """One figure over the releases."""
    return np.array([figures[name] for figures in releases], dtype=np.float64)


def engine_digest() -> str:
    """Which engine is being run: a digest of core's sources, what only reads releases aside."""
    digest = hashlib.sha256()
    for path in sorted(CORE.rglob("*.py")):
        name = path.relative_to(CORE)
        if name.parts[0] not in ("audit", "measure"):
            digest.update(name.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def save(figures: Figures, path: Path, engine: str) -> None:
    """Write figures as JSON, floats short enough to read, with the engine they were made with."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"engine": engine, **_rounded(figures)}, indent=1) + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return value
