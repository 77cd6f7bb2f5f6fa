"""Releases for other tools: the tidy tables as CSV or Parquet files, or with views in DuckDB or PostgreSQL.

What is written appears whole or not at all, and nothing that exists is written over. Files:

1. everything is written under a hidden name beside the target, one release after the other;
2. the hidden name becomes the target's.

In PostgreSQL everything is one transaction. A new format is one class and one line in `FORMATS`.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from shoal.core.policy.policy import Policy
from shoal.core.published.manifest import PublishedRelease
from shoal.streams.errors import InputError
from shoal.streams.files.estimates import ESTIMATES, estimate_columns
from shoal.streams.files.extra import import_extra
from shoal.streams.files.postgres import PostgresSchema, connect, database_of
from shoal.streams.files.release_folder import (
    csv_line,
    release_numbers,
    sync_folder,
    table_of,
)
from shoal.streams.files.tidy import Columns, Layout, Schema, tidy
from shoal.streams.files.unwatched import Steps
from shoal.streams.files.views import MODEL_VIEWS, VIEWS
from shoal.streams.files.whole_releases import whole_release, whole_releases


class Target(Protocol):
    """Something that tables are written to."""

    def add(self, name: str, columns: Columns) -> None: ...


class FileTarget(Target, Protocol):
    """A folder or a file, which must be closed."""

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
        self._paths = {name: path / f"{name}.parquet" for name in schemas}
        self._writers = {name: parquet.ParquetWriter(path, self._schemas[name]) for name, path in self._paths.items()}

    def add(self, name: str, columns: Columns) -> None:
        self._writers[name].write_table(self._arrow.table(columns, schema=self._schemas[name]))

    def close(self) -> None:
        for name, writer in self._writers.items():
            writer.close()
            with self._paths[name].open("rb") as file:
                os.fsync(file.fileno())


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
        for name, query in (MODEL_VIEWS if "estimates" in self._schemas else VIEWS).items():
            database.execute(f"CREATE VIEW {name} AS {query}")


@dataclass(frozen=True)
class Job:
    """What to write: releases, in a format, to a path or an address. `folder` is where they lie, if in one."""

    releases: Iterable[PublishedRelease]
    to: str
    target: str
    schema: str | None = None
    folder: Path | None = None
    policy: Policy | None = None  # for a table of estimates

    def tables(self, layout: Layout) -> dict[str, Schema]:
        """The columns of each table."""
        return layout.tables if self.policy is None else {**layout.tables, "estimates": ESTIMATES}


@dataclass(frozen=True)
class Outcome:
    """Where the tables are, in words without a password, and how many releases they have."""

    place: str
    releases: int


class Opened(NamedTuple):
    """A target, and where it is in words."""

    target: Target
    place: str


class _Begun(NamedTuple):
    """Releases, what table they are of, and which columns its tables have."""

    table: str
    layout: Layout
    releases: Iterator[PublishedRelease]


@contextmanager
def _file(make: Callable[[Path, Mapping[str, Schema]], FileTarget], job: Job, begun: _Begun) -> Iterator[Opened]:
    """A file or folder that gets its name when everything is in it."""
    target = Path(job.target)
    if job.schema is not None:
        raise InputError("--schema is for PostgreSQL only.")
    if job.folder is not None and job.folder.resolve() in (target.resolve(), *target.resolve().parents):
        raise InputError("--out must not be inside the folder of releases, which is published.")
    if target.exists() or target.is_symlink():
        raise InputError(f"{target} exists already; remove it, or choose another name.")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent} is not a folder; make it first.")
    hidden = target.with_name(f".{target.name}.partial")
    _remove(hidden)
    try:
        writer = make(hidden, job.tables(begun.layout))  # 1
        try:
            yield Opened(writer, str(target))
        finally:
            writer.close()
        hidden.rename(target)  # 2
        sync_folder(target.parent)
    finally:
        _remove(hidden)


@contextmanager
def _postgres(job: Job, begun: _Begun) -> Iterator[Opened]:
    """A schema, with the table's name unless another is given."""
    name, layout = job.schema or begun.table, begun.layout
    with connect(job.target) as connection:
        schema = PostgresSchema(connection, name)
        place = f"schema {schema.name} of the database {database_of(connection)}"
        schema.make()
        tables, views = job.tables(layout), VIEWS if job.policy is None else MODEL_VIEWS
        if any(schema.columns(name) for name in (*tables, *views)):
            raise InputError(
                f"{place} already has tables with these names; drop them, or choose another schema with --schema."
            )
        schema.create(tables, views)
        yield Opened(schema, place)


Format: TypeAlias = Callable[[Job, _Begun], AbstractContextManager[Opened]]

FORMATS: Mapping[str, Format] = {
    "csv": partial(_file, CsvFolder),
    "parquet": partial(_file, ParquetFolder),
    "duckdb": partial(_file, DuckDb),
    "postgres": _postgres,
}


def export(job: Job, watcher: Steps) -> Outcome:
    """Writes the releases, of which there is at least one, and says where they are and how many there were.

    Raises `InputError` if the target exists or a release was made with another policy than the job's, `ServiceError` if
    a database cannot be reached, and what reading the releases raises.
    """
    begun, count = _begin(_of_policy(job)), 0
    with FORMATS[job.to](job, begun) as opened:
        for release in begun.releases:
            for name, columns in tidy(release, begun.layout).items():
                opened.target.add(name, columns)
            if job.policy is not None:
                opened.target.add("estimates", estimate_columns(job.policy, release))
            watcher.advance(1)
            count += 1
    return Outcome(opened.place, count)


def _of_policy(job: Job) -> Iterator[PublishedRelease]:
    for release in job.releases:
        if job.policy is not None and release.meaning.get("policy") != job.policy.digest:
            raise InputError("a release was made with another policy; load the one that was published with it.")
        yield release


def _begin(releases: Iterable[PublishedRelease]) -> _Begun:
    """Read up to the first release with a cell, which says what columns there are."""
    source, first = iter(releases), list[PublishedRelease]()
    for release in source:
        first.append(release)
        if release.cells:
            break
    return _Begun(table_of(first[0]), Layout(first), chain(first, source))


def folder_releases(out: Path, number: int | None) -> tuple[int, Iterator[PublishedRelease]]:
    """How many releases of a folder there are to export, and the releases in full.

    Raises `InputError` if there are none. Reading them raises `GuaranteeError` if the chain of all releases is broken
    or one was changed.
    """
    if not out.is_dir():
        raise InputError(f"{out} is not a folder of releases.")
    if number is not None:
        return 1, iter([whole_release(out, number)])
    if not (numbers := release_numbers(out)):
        raise InputError("the folder has no releases; the first is called release-0001.")
    return len(numbers), whole_releases(out)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _escaped(text: str) -> str:
    return text.replace("'", "''")
