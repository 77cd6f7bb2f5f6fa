"""Tables in a schema of PostgreSQL, written with COPY inside the caller's transaction."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from shoal.streams.errors import InputError, ServiceError
from shoal.streams.files.extra import import_extra
from shoal.streams.files.tidy import Columns, Schema

EXTRA: Final = "postgres"
TYPES: Final = {"int": "bigint", "float": "double precision", "text": "text"}
_LONGEST_NAME: Final = 63  # PostgreSQL cuts longer ones off
_CONNECT_S: Final = 10


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """A connection whose transaction is committed at the end of the block, and rolled back after an error.

    Raises ServiceError if PostgreSQL cannot be reached or goes away, and InputError for what it refuses.
    """
    psycopg = import_extra("psycopg", EXTRA)
    try:
        options = {"connect_timeout": _CONNECT_S, **psycopg.conninfo.conninfo_to_dict(address)}
    except psycopg.ProgrammingError:
        raise InputError("the address of the database must be like postgresql://user@host:5432/database.") from None
    try:
        with psycopg.connect(**options) as connection:
            yield connection
    except psycopg.OperationalError as error:
        raise ServiceError(f"PostgreSQL cannot be reached: {_sentence(error)}.") from error
    except psycopg.Error as error:
        raise InputError(f"PostgreSQL refused: {_sentence(error)}.") from error


def database_of(connection: Any) -> str:
    """The name of the database, for a message: an address may hold a password."""
    return str(connection.info.dbname)


class PostgresSchema:
    """The tables of one schema. Nothing is committed here."""

    def __init__(self, connection: Any, name: str) -> None:
        self._connection = connection
        self._sql = import_extra("psycopg.sql", EXTRA)
        self.name = name
        _check_name(name)

    def make(self) -> None:
        """Makes the schema if it is missing; a user without the right to make schemas may write to one that exists."""
        found = self._connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [self.name]).fetchone()
        if found is None:
            self.execute("CREATE SCHEMA {schema}")

    def columns(self, table: str) -> list[str]:
        """The columns of a table or view in order, none if there is no such thing."""
        asked = """SELECT attname FROM pg_attribute JOIN pg_class c ON attrelid = c.oid
            JOIN pg_namespace n ON relnamespace = n.oid
            WHERE nspname = %s AND relname = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
        return [column for (column,) in self._connection.execute(asked, [self.name, table]).fetchall()]

    def create(self, tables: Mapping[str, Schema], views: Mapping[str, str]) -> None:
        """Creates tables, and then views over them."""
        for table, schema in tables.items():
            for column in schema:
                _check_name(column)
            columns = self._sql.SQL(", ").join(
                self._sql.SQL("{} {}").format(self._sql.Identifier(column), self._sql.SQL(TYPES[kind]))
                for column, kind in schema.items()
            )
            self.execute("CREATE TABLE {schema}.{table} ({columns})", table=table, columns=columns)
        # the views name each other and the tables without a schema
        self.execute("SET LOCAL search_path TO {schema}, pg_catalog")
        for view, query in views.items():
            self.execute(f"CREATE VIEW {{schema}}.{{view}} AS {query}", view=view)

    def add(self, name: str, columns: Columns) -> None:
        """Appends lines to a table."""
        statement = self._compose("COPY {schema}.{table} FROM STDIN", table=name)
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for line in zip(*columns.values(), strict=True):
                copy.write_row(line)

    def execute(self, statement: str, arguments: list[Any] | None = None, **names: Any) -> Any:
        """Runs one statement; `{schema}` and the given names in it are quoted as identifiers."""
        return self._connection.execute(self._compose(statement, **names), arguments)

    def _compose(self, statement: str, **names: Any) -> Any:
        quoted = {key: self._sql.Identifier(name) if isinstance(name, str) else name for key, name in names.items()}
        return self._sql.SQL(statement).format(schema=self._sql.Identifier(self.name), **quoted)


def _check_name(name: str) -> None:
    if not 0 < len(name.encode()) <= _LONGEST_NAME:
        raise InputError(f"PostgreSQL takes names of 1 to {_LONGEST_NAME} bytes, and one of these is {name!r}.")


def _sentence(error: Exception) -> str:
    """The first line of what PostgreSQL said; it has seen nothing but published tables."""
    said = str(error).strip().splitlines() or [type(error).__name__]
    return said[0].rstrip(".")
