"""kill -9 of `shoal sink`, after every numbered step and at random moments, while a reader looks all the time."""

import asyncio
import importlib
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from deploy.local.ports import free_port
from tests.support.judges.metrics import value
from tests.support.services.ask import ask
from tests.support.services.kept import Target, check
from tests.support.services.nursery import NURSERY, Process
from tests.support.services.releases_topic import make_releases, publish
from tests.support.services.services import environment
from tests.support.services.table import await_that

KINDS = ("postgres", "parquet")
KILLS = 6
STEPS = ("sink.1", "sink.2", "sink.3", "sink.4")


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, postgres: str, tmp_path: Path, table: str) -> Target:
    return Target(request.param, postgres, tmp_path / "kept", table)


def start(kafka: str, target: Target, policy: Path, *more: str, crash_at: str = "") -> Process:
    settings = environment(kafka, "redis://127.0.0.1:1/0", **({"CRASH_AT": crash_at} if crash_at else {}))
    log = policy.with_name("sink.log")
    return NURSERY.start(("sink", target.name, "--policy", str(policy), *more), settings, log)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("full_every", [1, 4])
def test_a_sink_killed_right_after_a_step_leaves_one_whole_release(
    kafka: str, table: str, target: Target, tmp_path: Path, full_every: int
) -> None:
    policy, releases = make_releases(tmp_path, table, 2 + len(STEPS), full_every)
    out, expected = tmp_path / "out", tmp_path / "expected"
    asyncio.run(publish(kafka, table, releases[:1]))
    assert start(kafka, target, policy, "--once").wait(60) == 0
    for number, step in enumerate(STEPS, start=2):
        asyncio.run(publish(kafka, table, releases[number - 1 : number]))
        assert start(kafka, target, policy, "--once", crash_at=step).wait(60) == -signal.SIGKILL, step
        committed = step == "sink.4" or (target.kind == "parquet" and step == "sink.3")
        check(target, out, number if committed else number - 1, expected)
        assert start(kafka, target, policy, "--once").wait(60) == 0
        check(target, out, number, expected)


@pytest.mark.timeout(300)
def test_a_sink_killed_at_random_moments_shows_whole_releases_and_ends_with_the_last(
    kafka: str, table: str, target: Target, tmp_path: Path
) -> None:
    policy, releases = make_releases(tmp_path, table, 1 + 3 * KILLS)
    asyncio.run(publish(kafka, table, releases[:1]))
    assert start(kafka, target, policy, "--once").wait(60) == 0
    chance = random.Random(os.environ.get("SHOAL_SINK_SEED", ""))
    with _looking(target) as seen:
        for number in range(1, len(releases), 3):
            web = free_port()
            following = start(kafka, target, policy, "--web-port", str(web))
            asyncio.run(publish(kafka, table, releases[number : number + 1]))
            await_that(lambda least=number: seen[-1:] > [least], 60)
            check_vitals(web, number + 1)
            asyncio.run(publish(kafka, table, releases[number + 1 : number + 3]))
            time.sleep(chance.uniform(0, 0.3))  # it is writing one of the two, or has just done so
            following.kill()
            following.wait()
        assert start(kafka, target, policy, "--once").wait(60) == 0
    assert len(seen) > KILLS
    assert seen == sorted(seen)
    check(target, tmp_path / "out", len(releases), tmp_path / "expected")


def check_vitals(web: int, number: int) -> None:
    """What a sink says of itself that follows the topic and has written this release, and no other."""
    assert ask(web, "ready") == (200, '{"ready": true, "state": "ready", "reason": null}')
    await_that(lambda: value(ask(web, "metrics")[1], "shoal_sink_release_number") == number, 10)
    assert value(ask(web, "metrics")[1], "shoal_sink_releases_total") == 1


@contextmanager
def _looking(target: Target) -> Iterator[list[int]]:
    """Looks at the target again and again; gives the releases that were seen, each of them whole."""
    seen: list[int] = []
    problems: list[BaseException] = []
    over = threading.Event()

    def look() -> None:
        try:
            while not over.wait(0.02):
                number = _look_at_postgres(target) if target.kind == "postgres" else _look_at_parquet(target)
                if number is not None and number not in seen[-1:]:
                    seen.append(number)
        except BaseException as problem:  # noqa: BLE001 - it is raised where the test sees it
            problems.append(problem)

    looker = threading.Thread(target=look)
    looker.start()
    try:
        yield seen
    finally:
        over.set()
        looker.join()
    if problems:
        raise problems[0]


def _look_at_postgres(target: Target) -> int | None:
    """One statement, as an analyst would write it: everything that it joins must be of one release."""
    with psycopg.connect(target.name) as connection:
        schema = f'"{target.table}"'
        found = connection.execute(
            f"""SELECT (SELECT release FROM {schema}.sink), (SELECT max(release) FROM {schema}.releases),
            (SELECT array_agg(DISTINCT release) FROM {schema}.cells), (SELECT sum(people) FROM {schema}.cells),
            (SELECT sum(rows) FROM {schema}.rows), people, rows
            FROM {schema}.releases e ORDER BY e.release DESC LIMIT 1"""
        ).fetchone()
    assert found is not None
    said, last, cells, people, rows, all_people, all_rows = found
    assert cells == [said] == [last]
    assert (people, rows) == (all_people, all_rows)
    return int(said)


def _look_at_parquet(target: Target) -> int | None:
    """A reader follows the link once; the folder may be removed when it is two releases old."""
    parquet = importlib.import_module("pyarrow.parquet")
    folder = (Path(target.name) / "latest").resolve()
    try:
        tables = {name: parquet.read_table(folder / f"{name}.parquet") for name in ("cells", "releases")}
    except FileNotFoundError:
        return None
    last = tables["releases"].to_pylist()[-1]
    assert folder.name == f"release-{last['release']:04}"
    assert set(tables["cells"]["release"].to_pylist()) == {last["release"]}
    assert sum(tables["cells"]["people"].to_pylist()) == last["people"]
    return int(last["release"])
