"""The alerts and the dashboard: Prometheus reads them, they name metrics that exist, and the runbook knows them all."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr

from shoal.streams.intake.ingest import Ingest
from shoal.streams.prometheus import State
from shoal.streams.settings import Settings
from shoal.streams.store.encryption import make_cipher
from shoal.streams.store.store import Store
from shoal.streams.vitals import SinkVitals, SourceVitals
from shoal.streams.worker.exposition import Exposition
from shoal.streams.worker.faust_app import make_app
from shoal.streams.worker.owners import Owners
from shoal.streams.worker.planner import Planner
from shoal.streams.worker.standing import FIGURES
from tests.support.engines.series import clinic_policy
from tests.support.judges.metrics import allowed, read_page
from tests.support.missing import skip_or_fail
from tests.support.root import ROOT

_FOLDER = ROOT / "deploy" / "prometheus"
_RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((_FOLDER / "shoal.rules.yaml").read_text())["groups"] for rule in group["rules"]
]
_DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "shoal.json").read_text())
_TABLE = "clinic"
# In Prometheus itself, and in every job that it watches.
_ITS_OWN = {"up"}
_EVERYWHERE = {"instance", "job", "le", "partition"}
_WORDS = {"by", "on", "and", "or", "unless", "without", "ignoring", "time", "inf", "nan"}


def expressions() -> Iterator[tuple[str, str]]:
    """(where it stands, expression) of every alert and every panel."""
    for rule in _RULES:
        yield rule["alert"], rule["expr"]
    for panel in _DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            expr = target["expr"].replace("$__rate_interval", "5m").replace("$table", ".*")
            yield panel["title"], expr


async def exposed() -> dict[str, set[str]]:
    """The labels of every metric of a worker that has nothing to do, and of a release that it knows; of a source and of
    a sink, too.
    """
    policy = clinic_policy()
    settings = Settings(key=SecretStr("a secret of the alerts"))
    store = Store(settings.redis, policy.table, make_cipher(None))  # which nobody connects
    planner = Planner(settings, policy, store, 1, lambda _: None)
    ingest = Ingest(settings, policy, store, 1, lambda _: None)
    planner.standing.say(State.WAITING)
    manifest = json.dumps({"release": 1} | dict.fromkeys(FIGURES, 1)).encode()
    planner.standing.published(manifest, 0.0, 1, policy)
    planner.standing.due_at = 1.0
    planner.standing.snapshot = 1
    app, owners = make_app(settings, policy, planner), Owners(settings, policy, store, 1, lambda _: None)
    page = Exposition(app, policy.table, ingest, planner.standing, owners).write().decode()
    families = read_page(page)
    for beside in (SourceVitals(policy.table), SinkVitals(policy.table)):
        families |= read_page(beside.metrics().decode())
    found: dict[str, set[str]] = {}
    for name, family in families.items():
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        for ending in endings:
            found[name + ending] = {label for sample in family.samples for label in sample.labels}
    return found


def unknown(expression: str, metrics: dict[str, set[str]]) -> list[str]:
    """What an expression names and no worker shows: metrics, and words that a label cannot have."""
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b(by|on)\s*\([^)]*\)|\"[^\"]*\"", " ", expression)
    names = {name for name in re.findall(r"[a-z_][a-z0-9_]*(?!\w*\s*\()", bare) if "_" in name or name in _ITS_OWN}
    wrong = sorted(names - metrics.keys() - _ITS_OWN)
    words = allowed(_TABLE)
    for label, matcher in re.findall(r"(\w+)(?:=~|!=|!~|=)\"([^\"]*)\"", expression):
        if label not in words and label not in _EVERYWHERE:
            wrong.append(label)
        elif label in words and label != "table":
            wrong += [f"{label}={one}" for one in matcher.split("|") if one not in words[label]]
    for labels in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", expression):
        wrong += [one.strip() for one in labels.split(",") if one.strip() not in words.keys() | _EVERYWHERE]
    return wrong


async def test_every_expression_uses_metrics_and_words_that_exist() -> None:
    metrics = await exposed()
    assert {place: wrong for place, expr in expressions() if (wrong := unknown(expr, metrics))} == {}


async def test_an_expression_about_something_else_is_found() -> None:
    """The known-bad twin."""
    metrics = await exposed()
    assert unknown('sum by (table) (rate(shoal_event_total{outcome="accepted"}[5m]))', metrics) == ["shoal_event_total"]
    assert unknown('shoal_planner_state{state="sleeping"} == 1', metrics) == ["state=sleeping"]
    assert unknown("sum by (person) (shoal_people)", metrics) == ["person"]
    assert unknown('shoal_people{person="p17"}', metrics) == ["person"]


async def test_the_dashboard_shows_every_number_that_shoal_exposes() -> None:
    metrics = await exposed()
    shown = " ".join(expr for _, expr in expressions())
    hidden = {
        name for name in metrics if name.startswith("shoal_") and not name.endswith(("_bucket", "_count", "_sum"))
    }
    assert {name for name in hidden if not re.search(rf"\b{name}\b", shown)} == set()


def test_every_alert_has_a_line_in_the_runbook_and_a_test() -> None:
    names = [rule["alert"] for rule in _RULES]
    assert len(set(names)) == len(names)
    page = (ROOT / "docs" / "operating.md").read_text()
    runbook = page.split("\n## Alerts\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(Shoal\w+)` \|", runbook, re.MULTILINE) == names
    tests = yaml.safe_load((_FOLDER / "shoal.test.yaml").read_text())["tests"]
    assert [test["name"] for test in tests] == ["an ordinary day", *names]
    assert {one["alertname"] for one in tests[0]["alert_rule_test"]} == set(names)
    for rule in _RULES:
        assert rule["labels"]["severity"] in ("critical", "warning")


def test_the_dashboard_is_one_that_grafana_can_show() -> None:
    panels = _DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        own = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert place["x"] + place["w"] <= 24, panel["title"]
        assert not cells & own, f"{panel['title']} lies on another panel"
        cells |= own


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        skip_or_fail("promtool is missing: apt-get install prometheus")
    return found


def test_prometheus_reads_the_rules_and_each_fires_when_it_should_and_only_then(promtool: str) -> None:
    for command in (["check", "rules", "shoal.rules.yaml"], ["test", "rules", "shoal.test.yaml"]):
        done = subprocess.run([promtool, *command], cwd=_FOLDER, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_reads_every_expression_of_the_dashboard(promtool: str, tmp_path: Path) -> None:
    def check(exprs: list[str]) -> int:
        rules = [{"record": f"r{number}", "expr": expr} for number, expr in enumerate(exprs)]
        path = tmp_path / "rules.yaml"
        path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
        return subprocess.run([promtool, "check", "rules", path], capture_output=True).returncode

    assert check([expr for _, expr in expressions()]) == 0
    assert check(["sum by (table (shoal_people)"]) != 0
