"""`shoal sink` on a real Kafka: the newest release, once, in PostgreSQL and as Parquet files."""

import asyncio
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

import shoal
from shoal.core.published.manifest import Manifest, PublishedRelease
from shoal.streams.cli import main
from shoal.streams.errors import GuaranteeError
from shoal.streams.files.release_folder import read_releases
from shoal.streams.kafka.release_reader import CommittedRelease
from shoal.streams.sink.newest import Delivery
from shoal.streams.sink.parquet_newest import ParquetNewest
from shoal.streams.sink.postgres_newest import PostgresNewest
from tests.support.root import ROOT
from tests.support.services.kept import TABLES, Target, check
from tests.support.services.releases_topic import make_releases, publish

KINDS = ("postgres", "parquet")


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, postgres: str, tmp_path: Path, table: str) -> Target:
    return Target(request.param, postgres, tmp_path / "kept", table)


@pytest.fixture
def made(tmp_path: Path, table: str) -> tuple[Path, list[PublishedRelease]]:
    return make_releases(tmp_path, table, 5)


@pytest.fixture
def sink(kafka: str, target: Target, made: tuple[Path, Any]) -> Callable[..., int]:
    command = ["sink", target.name, "--once", "--policy", str(made[0]), "--kafka", kafka]
    return lambda *more: main([*command, *more])


def test_the_newest_release_is_kept_and_every_release_is_listed(
    kafka: str,
    table: str,
    target: Target,
    made: tuple[Path, list[PublishedRelease]],
    sink: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, releases = made
    for first, last in ((0, 2), (2, 3), (3, 3), (3, 5)):
        asyncio.run(publish(kafka, table, releases[first:last]))
        assert sink("--json") == 0
        said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [line["release"] for line in said] == ([last] if first < last else [])
        check(target, tmp_path / "out", last, tmp_path / "expected")
    if target.kind == "postgres":
        assert {line["release"] for line in target.read("expected")} == {5}
        assert sum(line["high"] for line in target.read("by_value")) >= 65


def test_another_table_or_another_story_is_refused(
    kafka: str,
    table: str,
    target: Target,
    made: tuple[Path, list[PublishedRelease]],
    sink: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, releases = made
    asyncio.run(publish(kafka, table, releases[:2]))
    assert sink() == 0
    other = f"{table}-other"
    (tmp_path / "other").mkdir()
    policy, foreign = make_releases(tmp_path / "other", other)
    asyncio.run(publish(kafka, other, foreign))
    schema = ["--schema", table] if target.kind == "postgres" else []
    assert main(["sink", target.name, *schema, "--once", "--policy", str(policy), "--kafka", kafka]) == 1
    assert f"keeps the table {table}" in capsys.readouterr().err
    _set_place(target, manifest="0" * 64)
    asyncio.run(publish(kafka, table, releases[2:3]))
    assert sink() == 1
    assert "release 3 does not follow" in capsys.readouterr().err
    _set_place(target, next_offset=10**6)
    assert sink() == 1
    assert "ends before release 2" in capsys.readouterr().err
    assert {line["release"] for line in target.read("cells")} == {2}


def _set_place(target: Target, **change: Any) -> None:
    if target.kind == "postgres":
        with psycopg.connect(target.name) as connection:
            ((column, value),) = change.items()
            connection.execute(f'UPDATE "{target.table}".sink SET {column} = %s', [value])
        return
    state = Path(target.name) / "latest" / "sink.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), **change}))


def test_columns_that_are_known_later_are_added_and_rights_last(
    kafka: str, table: str, postgres: str, tmp_path: Path
) -> None:
    """The first release has no cells, so it does not tell the attributes."""
    policy, _ = make_releases(tmp_path, table)
    empty, later = _late_start(tmp_path)
    asyncio.run(publish(kafka, table, empty))
    command = ["sink", postgres, "--once", "--policy", str(policy), "--kafka", kafka]
    assert main(command) == 0
    target = Target("postgres", postgres, tmp_path, table)
    assert target.read("cells") == []
    user = f"reader_{postgres.rpartition('_')[2]}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {user}")
        connection.execute(f'GRANT SELECT ON "{table}"."values" TO {user}')
        asyncio.run(publish(kafka, table, later))
        assert main(command) == 0
        check(target, tmp_path / "late", len(later) + 1, tmp_path / "expected")
        granted = connection.execute(
            "SELECT has_table_privilege(%s, %s, 'SELECT')", [user, f'"{table}"."values"']
        ).fetchone()
        assert granted == (True,)
        connection.execute(f"DROP OWNED BY {user}")
        connection.execute(f"DROP ROLE {user}")


def _late_start(folder: Path) -> tuple[Sequence[PublishedRelease], Sequence[PublishedRelease]]:
    """Releases of the ward after a first one of nobody."""
    events = folder / "late.jsonl"
    events.write_text('{"op": "release"}\n' + (folder / "events.jsonl").read_text())
    shoal.replay(shoal.load_policy(folder / "policy.yaml"), events, folder / "late", key="a secret of the tests")
    found = list(read_releases(folder / "late"))
    return found[:1], found[1:]


def test_tables_that_no_sink_made_are_left_alone(
    kafka: str, table: str, postgres: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy, releases = make_releases(tmp_path, table)
    asyncio.run(publish(kafka, table, releases))
    assert main(["export", str(tmp_path / "out"), "--to", "postgres", "--out", postgres]) == 0
    assert main(["sink", postgres, "--once", "--policy", str(policy), "--kafka", kafka]) == 2
    assert "has tables that no sink has made" in capsys.readouterr().err


def test_two_sinks_on_one_schema_do_no_harm_and_another_content_is_refused(
    table: str, postgres: str, tmp_path: Path
) -> None:
    _, releases = make_releases(tmp_path, table)
    sinks = [PostgresNewest(postgres, table) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        for files in releases:
            delivery = delivered(files)
            list(pool.map(lambda sink, one=delivery: sink.keep(one), sinks))
    check(Target("postgres", postgres, tmp_path, table), tmp_path / "out", 3, tmp_path / "expected")
    sinks[0].keep(delivered(releases[1]))  # an older one, which is late
    assert sinks[1].kept() == delivered(releases[2]).kept
    forged = replace(releases[2], head=Manifest(releases[2].manifest.replace(b'"withheld":0', b'"withheld":1')))
    with pytest.raises(GuaranteeError, match="holds another release 3"):
        sinks[0].keep(delivered(forged))


def delivered(files: PublishedRelease) -> Delivery:
    release = CommittedRelease(files.number, files.cells, files.groups, files.head, next_offset=files.number)
    return Delivery(release, [release.meaning])


def test_a_folder_has_one_sink(kafka: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy, _ = make_releases(tmp_path, table)
    first = ParquetNewest(tmp_path / "kept")
    assert first.kept() is None
    assert main(["sink", str(tmp_path / "kept"), "--once", "--policy", str(policy), "--kafka", kafka]) == 2
    assert "another sink is writing" in capsys.readouterr().err
    first.close()


async def test_releases_on_a_topic_are_read_in_python_also_where_a_loop_runs(
    kafka: str, table: str, tmp_path: Path
) -> None:
    path, releases = make_releases(tmp_path, table)
    await publish(kafka, table, releases)
    policy = shoal.load_policy(path)
    found = shoal.read_topic(policy, kafka=kafka)
    assert found == shoal.read_releases(tmp_path / "out")
    assert found[-1].count().low == found[-1].manifest["people"]
    topic = f"shoal.{table}.releases"
    assert shoal.read_release(topic, policy=policy, kafka=kafka) == found[-1]
    assert shoal.read_release(topic, 2, policy=path, kafka=kafka) == found[1]
    with pytest.raises(shoal.InputError, match="has no release 9"):
        shoal.read_release(topic, 9, policy=policy, kafka=kafka)
    with pytest.raises(shoal.InputError, match="there is no topic"):
        shoal.read_topic(shoal.load_policy(ROOT / "examples" / "ward" / "policy.yaml"), kafka=kafka)


def test_export_reads_the_topic_without_a_folder(
    kafka: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy, releases = make_releases(tmp_path, table)
    asyncio.run(publish(kafka, table, releases))
    source = ["--policy", str(policy), "--kafka", kafka]
    assert main(["export", *source, "--to", "csv", "--out", str(tmp_path / "from-topic")]) == 0
    assert main(["export", str(tmp_path / "out"), "--to", "csv", "--out", str(tmp_path / "from-folder")]) == 0
    for name in TABLES:
        assert (tmp_path / "from-topic" / f"{name}.csv").read_bytes() == (
            tmp_path / "from-folder" / f"{name}.csv"
        ).read_bytes()
