"""What a worker shows of itself on real services: right numbers, and nothing about a person."""

import json
import time
from typing import Any

import pytest

from deploy.local.ports import free_port
from shoal.core.migrations import FORMAT
from shoal.core.state import ENGINE
from shoal.streams.files.schemas import DOCUMENTS
from shoal.streams.prometheus import STEPS
from tests.support.judges.metrics import foreign_labels, read_page, value
from tests.support.root import ROOT
from tests.support.services.ask import ask
from tests.support.services.table import Make, Table, Worker, await_that, insert

_CANARY = "canary"
_STEPS_BETWEEN_SHARDS = {"gather", "announce", "parts"}


def scrape(port: int) -> str:
    status, page = ask(port, "metrics")
    assert status == 200
    return page


def run_with_canaries(table: Table, port: int) -> Worker:
    worker = table.start_planner(WEB_PORT=str(port))
    people = [insert(number, id=f"{_CANARY}{number}") for number in range(90)]
    table.send(people)
    table.send([{"op": "insert", "id": f"{_CANARY}-bad", f"{_CANARY}-field": 1}, b'{"op":"canary'], partition=1)
    table.send([{**people[1], "id": f"{_CANARY}-x", "sensitive": [f"{_CANARY}-disease"]}, people[0]])
    table.publish({"op": f"{_CANARY}-external"})
    table.request(b'{"op":"canary-trigger"}')
    table.release()
    table.await_dead_letters(6)
    return worker


def test_prometheus_sees_what_happened_and_nothing_about_a_person(make: Make) -> None:
    table = make(release={"every_seconds": 3600})
    port = free_port()
    run_with_canaries(table, port)
    await_that(lambda: value(scrape(port), "shoal_release_number") == 1, 20)
    page = scrape(port)
    found = read_page(page)
    events = {
        outcome: sum(sample.value for sample in found["shoal_events"].samples if sample.labels["outcome"] == outcome)
        for outcome in ("accepted", "rejected")
    }
    assert events == {"accepted": 90, "rejected": 4}
    assert value(page, "shoal_rejects_total", source="events", reason="bad-json") == 1
    assert value(page, "shoal_rejects_total", source="events", reason="already-present") == 1
    assert value(page, "shoal_rejects_total", source="triggers", reason="unknown-op") == 1
    assert sum(sample.value for sample in found["shoal_rejects"].samples) == 6
    assert {sample.labels["partition"] for sample in found["shoal_lag_records"].samples} == {"0", "1", "2", "3"}
    assert {sample.value for sample in found["shoal_lag_records"].samples} == {0.0}
    steps = {
        sample.labels["step"]: sample.value
        for sample in found["shoal_release_step_seconds"].samples
        if sample.name.endswith("_count")
    }
    assert steps == dict.fromkeys(set(STEPS) - _STEPS_BETWEEN_SHARDS, 1.0)
    manifest = json.loads(table.await_releases(1)[0].manifest)
    for field in ("rows", "withheld", "suppressed", "waiting", "vacant", "max_breach", "bound"):
        assert value(page, f"shoal_release_{field}") == manifest[field], field
    assert value(page, "shoal_people") == 90
    assert abs(value(page, "shoal_release_timestamp_seconds") - time.time()) < 60
    assert value(page, "shoal_planner_state", state="waiting") == 1
    assert value(page, "shoal_ingest_course", course="running") == 1
    assert value(page, "shoal_worker_info", engine=ENGINE, format=str(FORMAT)) == 1
    assert value(page, "shoal_redis_seconds_count", script="commit") > 0
    assert value(page, "shoal_kafka_seconds_count", request="transaction") > 0
    assert value(page, "faust_messages_received_total") == 2
    assert _CANARY not in page
    assert foreign_labels(page, table.name) == []


def test_the_figures_of_the_last_release_outlive_the_worker_that_made_it(make: Make) -> None:
    table = make(release={"every_seconds": 3600})
    first = run_with_canaries(table, free_port())
    assert first.stop() == 0
    port = free_port()
    table.start_planner(WEB_PORT=str(port))
    await_that(lambda: "shoal_release_rows" in scrape(port), 20)
    page = scrape(port)
    manifest = json.loads(table.await_releases(1)[0].manifest)
    assert value(page, "shoal_release_rows") == manifest["rows"]
    assert value(page, "shoal_release_number") == 1
    due, last = value(page, "shoal_release_due_timestamp_seconds"), value(page, "shoal_release_timestamp_seconds")
    assert due - last == pytest.approx(3600)
    assert abs(last - time.time()) < 120


def test_a_rebalance_is_no_reason_not_to_be_ready(make: Make) -> None:
    table, ports = make(), [free_port(), free_port()]
    table.start_planner(WEB_PORT=str(ports[0]))
    await_that(lambda: ask(ports[0], "ready")[0] == 200, 20)
    other = table.start(WEB_PORT=str(ports[1]))
    answers: list[tuple[int, Any]] = []
    deadline = time.monotonic() + 40
    while "ingest.loaded" not in other.log and time.monotonic() < deadline:
        status, text = ask(ports[0], "ready")
        answers.append((status, json.loads(text)["state"]))
        time.sleep(0.05)
    assert {status for status, _ in answers} == {200}
    assert {state for _, state in answers} <= {"ready", "rebalancing"}
    await_that(lambda: ask(ports[1], "ready")[0] == 200, 20)
    states = [json.loads(ask(port, "ready")[1])["planner"] for port in ports]
    assert sorted(states) == ["elsewhere", "waiting"]
    other_page = scrape(ports[states.index("elsewhere")])
    assert "shoal_release_number" not in other_page, "only the worker that plans knows the last release"


def test_a_worker_serves_the_schemas_that_docs_has(make: Make) -> None:
    port = free_port()
    make().start_planner(WEB_PORT=str(port))
    status, listed = ask(port, "schemas")
    assert status == 200
    files = json.loads(listed)["schemas"]
    assert len(files) == len(DOCUMENTS)
    for file in files:
        status, text = ask(port, file.removeprefix("/"))
        assert status == 200
        assert text == (ROOT / "docs" / file.removeprefix("/")).read_text(encoding="utf-8")
    assert ask(port, "schemas/../policy")[0] == 404
    assert ask(port, "schemas/other.json")[0] == 404
