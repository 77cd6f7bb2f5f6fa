"""Releases for other tools: the tidy tables as CSV files, as Parquet files, or as a DuckDB database with views.

What is written appears whole or not at all, and nothing that exists is written over:

1. everything is written under a hidden name beside the target, one release after the other;
2. the hidden name becomes the target's.

A new format is one class and one line in `FORMATS`.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from shoal.streams.errors import InputError
from shoal.streams.files.extra import import_extra
from shoal.streams.files.release_folder import ReleaseFiles, csv_line, read_files, read_releases, sync_folder
from shoal.streams.files.tidy import Columns, Layout, Schema, tidy
from shoal.streams.kafka.chain import Chain

# What a row of a cell is expected to have, for the newest release and for all of them.
_VIEWS = {
    "expected_in_all": """
        SELECT release, cell, value, sum(r.rows * v.share) AS expected
        FROM "rows" r JOIN "values" v USING (release, "group") GROUP BY ALL
    """,
    "expected": """
        SELECT e.value, e.expected, c.* FROM expected_in_all e JOIN cells c USING (release, cell)
        WHERE release = (SELECT max(release) FROM releases)
    """,
}


class Target(Protocol):
    """Something that tables are written to, in a folder of its own or a file."""

    def add(self, name: str, columns: Columns) -> None: ...

    def close(self) -> None: ...


class CsvFolder:
    """A file with a header for each table."""

    def __init__(self, path: Path, schemas: Mapping[str, Schema]) -> None:
        path.mkdir()
        self._files = {name: (path / f"{name}.csv").open("w", encoding="utf-8", newline="") for name in schemas}
        for name, schema in schemas.items():
            self._files[name].write(csv_line(*schema))

    def add(self, name: str, columns: Columns) -> None:
        lines = zip(*columns.values(), strict=True)
        self._files[name].writelines(
            csv_line(*("" if field is None else str(field) for field in line)) for line in lines
        )

    def close(self) -> None:
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()


class ParquetFolder:
    """A file for each table, with one row group per release."""

    def __init__(self, path: Path, schemas: Mapping[str, Schema]) -> None:
        arrow, parquet = import_extra("pyarrow"), import_extra("pyarrow.parquet")
        types = {"int": arrow.int64(), "float": arrow.float64(), "text": arrow.string()}
        path.mkdir()
        self._arrow = arrow
        self._schemas = {
            name: arrow.schema([(column, types[kind]) for column, kind in schema.items()])
            for name, schema in schemas.items()
        }
        self._writers = {
            name: parquet.ParquetWriter(path / f"{name}.parquet", schema) for name, schema in self._schemas.items()
        }

    def add(self, name: str, columns: Columns) -> None:
        self._writers[name].write_table(self._arrow.table(columns, schema=self._schemas[name]))

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


class DuckDb:
    """A database of one file. Its tables are read from CSV files: DuckDB is quickest at that."""

    def __init__(self, path: Path, schemas: Mapping[str, Schema]) -> None:
        self._duckdb = import_extra("duckdb")
        self._path, self._schemas = path, schemas
        self._folder = path.with_name(f"{path.name}.csv")
        shutil.rmtree(self._folder, ignore_errors=True)
        self._csv = CsvFolder(self._folder, schemas)

    def add(self, name: str, columns: Columns) -> None:
        self._csv.add(name, columns)

    def close(self) -> None:
        self._csv.close()
        try:
            with self._duckdb.connect(str(self._path)) as database:
                self._fill(database)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _fill(self, database: Any) -> None:
        types = {"int": "BIGINT", "float": "DOUBLE", "text": "VARCHAR"}
        for name, schema in self._schemas.items():
            kinds = ", ".join(f"{_quoted(column)} {types[kind]}" for column, kind in schema.items())
            database.execute(f'CREATE TABLE "{name}" ({kinds})')
            database.execute(
                f"COPY \"{name}\" FROM '{_escaped(str(self._folder / f'{name}.csv'))}' "
                "(HEADER, DELIMITER ',', QUOTE '\"', ESCAPE '\"', AUTO_DETECT false, NULLSTR '')"
            )
        for name, query in _VIEWS.items():
            database.execute(f"CREATE VIEW {name} AS {query}")


FORMATS: Mapping[str, type[CsvFolder] | type[ParquetFolder] | type[DuckDb]] = {
    "csv": CsvFolder,
    "parquet": ParquetFolder,
    "duckdb": DuckDb,
}


def export(out: Path, to: str, target: Path, number: int | None = None) -> int:
    """Writes the releases of a folder, or one of them, and returns how many there were.

    Raises `InputError` if there is nothing to read or the target exists, and `GuaranteeError` if the chain of all
    releases is broken or one was changed.
    """
    if not out.is_dir():
        raise InputError(f"{out} is not a folder of releases.")
    if out.resolve() in (target.resolve(), *target.resolve().parents):
        raise InputError("--out must not be inside the folder of releases, which is published.")
    if target.exists() or target.is_symlink():
        raise InputError(f"{target} exists already; remove it, or choose another name.")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent} is not a folder; make it first.")
    partial = target.with_name(f".{target.name}.partial")
    _remove(partial)
    try:
        layout = Layout(_read(out, number))
        writer: Target = FORMATS[to](partial, layout.tables)  # 1
        count = _write(_checked(_read(out, number), number), layout, writer)
        partial.rename(target)  # 2
        sync_folder(target.parent)
    finally:
        _remove(partial)
    return count


def _read(out: Path, number: int | None) -> Iterator[ReleaseFiles]:
    if number is None:
        return read_releases(out)
    return iter([read_files(out, number)])


def _write(releases: Iterable[ReleaseFiles], layout: Layout, writer: Target) -> int:
    count = 0
    try:
        for files in releases:
            for name, columns in tidy(files, layout).items():
                writer.add(name, columns)
            count += 1
        if not count:
            raise InputError("the folder has no releases; the first is called release-0001.")
    finally:
        writer.close()
    return count


def _checked(releases: Iterable[ReleaseFiles], number: int | None) -> Iterator[ReleaseFiles]:
    """The same releases, if they are what their manifests say, and follow one another."""
    chain: Chain | None = None
    for files in releases:
        manifest = json.loads(files.manifest)
        if chain is None:
            chain = Chain(str(manifest.get("table")))
            if number is not None:  # nothing is known of the releases before it
                chain.number, chain.digest = number - 1, manifest.get("previous")
        chain.add(files.records, files.manifest)
        yield files


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _escaped(text: str) -> str:
    return text.replace("'", "''")
