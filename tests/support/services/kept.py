"""What a sink keeps, as a reader finds it, and a judge of it: `shoal export` of the same release says the same."""

import importlib
import shutil
from pathlib import Path
from typing import Any

import psycopg

from shoal.streams.files.export import Job, export, folder_releases
from shoal.streams.files.unwatched import Unwatched

REPLACED = ("cells", "rows", "values")
TABLES = (*REPLACED, "releases")


class Target:
    """Where a sink keeps releases, and what a reader finds there."""

    def __init__(self, kind: str, postgres: str, folder: Path, table: str) -> None:
        self.kind, self.table = kind, table
        self.name = postgres if kind == "postgres" else str(folder)

    def read(self, name: str) -> list[dict[str, Any]]:
        if self.kind == "parquet":
            parquet = importlib.import_module("pyarrow.parquet")
            lines: list[dict[str, Any]] = parquet.read_table(Path(self.name) / "latest" / f"{name}.parquet").to_pylist()
            return lines
        with psycopg.connect(self.name, row_factory=psycopg.rows.dict_row) as connection:
            return connection.execute(f'SELECT * FROM "{self.table}"."{name}"').fetchall()


def exported(out: Path, number: int, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What `shoal export` writes of one release."""
    shutil.rmtree(folder, ignore_errors=True)
    _, releases = folder_releases(out, number)
    export(Job(releases, "parquet", str(folder)), Unwatched())
    parquet = importlib.import_module("pyarrow.parquet")
    return {name: parquet.read_table(folder / f"{name}.parquet").to_pylist() for name in TABLES}


def check(target: Target, out: Path, number: int, folder: Path) -> None:
    """The target has that release, and a line for it and for each one before it."""
    expected = exported(out, number, folder)
    for name in REPLACED:
        assert target.read(name) == expected[name], name
    listed = target.read("releases")
    assert [line["release"] for line in listed] == list(range(1, number + 1))
    assert listed[-1:] == expected["releases"]
