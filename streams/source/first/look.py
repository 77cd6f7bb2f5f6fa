"""A look at data: a whole CSV file, or some thousand rows of a table in PostgreSQL or of a topic of Debezium's."""

import asyncio
import csv
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import IO, Any, Final, Literal, NamedTuple, Protocol

from aiokafka import TopicPartition

from shoal.streams.errors import InputError
from shoal.streams.files.extra import import_extra
from shoal.streams.files.postgres import EXTRA, connect
from shoal.streams.kafka.partition_reader import open_reader, read_to_end
from shoal.streams.kafka.topics import partition_counts
from shoal.streams.settings import Settings
from shoal.streams.source.avro import Schemas
from shoal.streams.source.envelope import read_row
from shoal.streams.source.registry import open_registry

MOST_ROWS: Final = 10_000
_ADDRESS: Final = ("postgres://", "postgresql://")
_TABLES = """
select table_schema || '.' || table_name from information_schema.tables
where table_type = 'BASE TABLE' and table_schema not in ('pg_catalog', 'information_schema') order by 1
"""
_KEY = """
select a.attname from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
where i.indrelid = %s::regclass and i.indisprimary order by array_position(i.indkey, a.attnum)
"""


class Watcher(Protocol):
    """Shows how far the reading is."""

    def begin(self, total: int | None) -> None: ...

    def advance(self, amount: int) -> None: ...


class Look(NamedTuple):
    """The values of each column, row by row; the columns of the key where they are known; and what was looked at.

    `delimiter` is that of a CSV file.
    """

    kind: Literal["csv", "table", "topic"]
    name: str
    values: Mapping[str, list[Any]]
    rows: int
    key: tuple[str, ...]
    delimiter: str = ","

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.values)


def look_at(source: str, table: str | None, settings: Settings, watcher: Watcher) -> Look:
    """Look at a file, an address of PostgreSQL, or else a topic. Raises InputError, ServiceError."""
    if source.startswith(_ADDRESS):
        return _look_at_postgres(source, table)
    if Path(source).is_file():
        return _look_at_csv(Path(source), watcher)
    if source.endswith(".csv"):
        raise InputError(f"there is no file {source}.")
    return asyncio.run(_look_at_topic(source, settings))


def _look_at_csv(path: Path, watcher: Watcher) -> Look:
    """Every row of a file. Equal fields of a column are one object, so that a long file takes little memory."""
    watcher.begin(path.stat().st_size)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            delimiter = _delimiter(file.readline())
            file.seek(0)
            rows = csv.reader(_watched(file, watcher), delimiter=delimiter, strict=True)
            header = next(rows, [])
            values: list[list[str | None]] = [[] for _ in header]
            known: list[dict[str, str]] = [{} for _ in header]
            for row in rows:
                if row and len(row) != len(header):
                    raise InputError(
                        f"line {rows.line_num} of {path} has {len(row):,} fields, and the header has {len(header):,}."
                    )
                for column, same, field in zip(values, known, row, strict=False):
                    column.append(same.setdefault(field, field) or None)
    except (OSError, UnicodeDecodeError, csv.Error):
        raise InputError(f"{path} is not a CSV file in UTF-8 that can be read.") from None
    if not values or not values[0] or len(set(header)) < len(header):
        raise InputError(f"{path} must have a header whose names differ, and at least one row.")
    return Look("csv", path.name, dict(zip(header, values, strict=True)), len(values[0]), (), delimiter)


def _delimiter(header: str) -> str:
    return max(",;\t|", key=header.count)


def _watched(file: IO[str], watcher: Watcher) -> Iterator[str]:
    for line in file:
        watcher.advance(len(line))
        yield line


def _by_column(columns: Iterable[str], rows: list[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row.get(name) for row in rows] for name in columns}


def _look_at_postgres(address: str, table: str | None) -> Look:
    sql = import_extra("psycopg", EXTRA).sql
    with connect(address) as connection:
        tables = [name for (name,) in connection.execute(_TABLES)]
        if table is None and len(tables) == 1:
            table = tables[0]
        if table is None or table not in tables:
            raise InputError(f"name the table with --table; there are {', '.join(tables) or 'none'}.")
        where = sql.Identifier(*table.split(".", 1))
        key = tuple(name for (name,) in connection.execute(_KEY, [where.as_string(connection)]))
        with closing(connection.execute(sql.SQL("select * from {} limit %s").format(where), [MOST_ROWS])) as found:
            columns = tuple(column.name for column in found.description or ())
            rows = [dict(zip(columns, row, strict=True)) for row in found]
    return Look("table", table, _by_column(columns, [*rows]), len(rows), key)


async def _look_at_topic(topic: str, settings: Settings) -> Look:
    count = (await partition_counts(settings.kafka_servers, settings.connect_s)).get(topic)
    if count is None:
        raise InputError(f"{topic} is neither a file, nor an address of PostgreSQL, nor a topic in Kafka.")
    rows: dict[str, Mapping[str, Any]] = {}
    key: tuple[str, ...] = ()
    schemas = Schemas(open_registry(settings))
    async with open_reader(settings.kafka_servers) as consumer:
        for number in range(count):
            partition = TopicPartition(topic, number)
            begin = (await consumer.beginning_offsets([partition]))[partition]
            async for records in read_to_end(consumer, partition, begin):
                await schemas.learn(records)
                for record in records:
                    found = read_row(record.key, record.value, record.headers, schemas)
                    if found is not None:
                        key = key or tuple(found.key)
                        rows[str(sorted(found.key.items()))] = found.row
                if len(rows) >= MOST_ROWS:
                    break
    if not rows:
        raise InputError(f"topic {topic} has no row in Debezium's format.")
    columns = dict.fromkeys(name for row in rows.values() for name in row)
    return Look("topic", topic, _by_column(columns, [*rows.values()]), len(rows), key)
