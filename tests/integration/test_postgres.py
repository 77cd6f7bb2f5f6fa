"""Releases in a real PostgreSQL: `shoal export --to postgres` says what the other formats say, whole or not at all."""

import csv
import importlib
import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

import shoal
from shoal.streams.cli import main
from shoal.streams.files.views import VIEWS
from tests.support.root import ROOT

WARD = ROOT / "examples" / "ward"
TABLES = ("cells", "releases", "rows", "values")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    shoal.replay(shoal.load_policy(WARD / "policy.yaml"), WARD / "events.jsonl", tmp_path / "out", key="s")
    return tmp_path / "out"


def query(address: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(address) as connection:
        return connection.execute(statement).fetchall()


def schemas(address: str) -> set[str]:
    return {name for (name,) in query(address, "SELECT nspname FROM pg_namespace") if not name.startswith("pg_")}


@pytest.mark.parametrize("has_policy", [False, True], ids=["without a policy", "with one"])
def test_the_tables_and_views_are_those_of_the_other_formats(
    out: Path, tmp_path: Path, postgres: str, has_policy: bool
) -> None:
    more = ["--policy", str(WARD / "policy.yaml")] if has_policy else []
    assert main(["export", str(out), "--to", "postgres", "--out", postgres, *more]) == 0
    for to in ("csv", "duckdb"):
        assert main(["export", str(out), "--to", to, "--out", str(tmp_path / to), *more]) == 0
    for name in (*TABLES, "estimates") if has_policy else TABLES:
        with (tmp_path / "csv" / f"{name}.csv").open(newline="") as file:
            _, *lines = csv.reader(file)
        found = query(postgres, f'SELECT * FROM ward."{name}"')
        assert [["" if item is None else str(item) for item in line] for line in found] == lines
    with importlib.import_module("duckdb").connect(str(tmp_path / "duckdb"), read_only=True) as database:
        for view in VIEWS:
            expected = sorted(database.execute(f"SELECT * FROM {view}").fetchall(), key=str)
            found = sorted(query(postgres, f"SELECT * FROM ward.{view}"), key=str)
            assert len(found) > 10
            assert [_rounded(line) for line in found] == [_rounded(line) for line in expected]


def _rounded(line: tuple[Any, ...]) -> list[Any]:
    return [round(item, 9) if isinstance(item, float) else item for item in line]


def test_what_is_there_is_not_written_over_and_another_schema_can_be_named(
    out: Path, postgres: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["export", str(out), "--to", "postgres", "--out", postgres]
    assert main(command) == 0
    assert main(command) == 2
    assert "already has tables with these names" in capsys.readouterr().err
    assert main([*command, "--schema", 'My "own"', "--release", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["releases"] == 1
    assert query(postgres, 'SELECT DISTINCT release FROM "My ""own""".cells') == [(2,)]
    assert query(postgres, "SELECT count(*) FROM ward.releases") == [(3,)]


def test_a_broken_chain_leaves_nothing_behind(out: Path, postgres: str, capsys: pytest.CaptureFixture[str]) -> None:
    groups = out / "release-0003" / "groups.jsonl"
    groups.write_bytes(groups.read_bytes().replace(b'"vacant":0', b'"vacant":1', 1))
    assert main(["export", str(out), "--to", "postgres", "--out", postgres]) == 1
    assert "release 3 has other records" in capsys.readouterr().err
    assert "ward" not in schemas(postgres)


def test_a_user_who_may_not_make_schemas_can_use_one_of_their_own(
    out: Path, postgres: str, capsys: pytest.CaptureFixture[str]
) -> None:
    user = f"analyst_{postgres.rpartition('_')[2]}"
    theirs = f"postgresql://{user}@{postgres.partition('@')[2]}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {user} LOGIN")
        assert main(["export", str(out), "--to", "postgres", "--out", theirs]) == 2
        assert "PostgreSQL refused: permission denied" in capsys.readouterr().err
        connection.execute(f"CREATE SCHEMA ward AUTHORIZATION {user}")
        assert main(["export", str(out), "--to", "postgres", "--out", theirs]) == 0
        connection.execute(f"DROP OWNED BY {user}")
        connection.execute(f"DROP ROLE {user}")


@pytest.mark.parametrize(
    ("address", "code", "said"),
    [
        ("postgresql://u:s3cret@127.0.0.1:1/db", 3, "PostgreSQL cannot be reached"),
        ("127.0.0.1 s3cret", 2, "must be like postgresql://"),
    ],
)
def test_an_address_that_does_not_answer_is_one_sentence_without_the_password(
    out: Path, address: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(out), "--to", "postgres", "--out", address]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert "s3cret" not in line
