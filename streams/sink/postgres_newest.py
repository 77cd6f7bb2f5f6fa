"""The newest release in a schema of PostgreSQL: the tables and views of `shoal export`, and where the topic goes on.

A release is one transaction:

1. the schema is locked against other sinks, and made if it is new;
2. the lines of the old release are deleted and those of the new one copied in;
3. the table `sink` says which release this is, and where the topic goes on;
4. the transaction is committed.

Readers go on reading the old lines until step 4. The table `releases` has a line for every release. Its tables are
only made anew if their columns differ, so rights that were granted on them last.
"""

from typing import Any, Final

from shoal.streams.errors import InputError
from shoal.streams.faults import crash_point
from shoal.streams.files.postgres import PostgresSchema, connect
from shoal.streams.files.tidy import Layout, Schema, tidy
from shoal.streams.files.views import NEWEST
from shoal.streams.kafka.release_reader import Place
from shoal.streams.sink.newest import Delivery, Kept, is_kept

_STATE: Final[Schema] = {"table": "text", "release": "int", "manifest": "text", "next_offset": "int"}
_REPLACED: Final = ("cells", "rows", "values")


class PostgresNewest:
    """`address` is that of the database; every release is written by a connection of its own."""

    def __init__(self, address: str, schema: str) -> None:
        self._address, self._schema = address, schema

    def kept(self) -> Kept | None:
        with connect(self._address) as connection:
            return self._kept(PostgresSchema(connection, self._schema))

    def keep(self, delivery: Delivery) -> None:
        with connect(self._address) as connection:
            schema = PostgresSchema(connection, self._schema)
            _lock(connection, self._schema)  # 1
            schema.make()
            held = self._kept(schema)
            if is_kept(held, delivery):
                return
            crash_point("sink.1")
            layout = Layout([delivery.files])
            self._make_tables(schema, layout, is_new=held is None)
            found = tidy(delivery.files, layout)
            for name in _REPLACED:  # 2
                schema.execute("DELETE FROM {schema}.{table}", table=name)
                schema.add(name, found[name])
            schema.add("releases", delivery.releases_after(0 if held is None else held.place.number))
            crash_point("sink.2")
            self._say(schema, delivery.kept)  # 3
            crash_point("sink.3")
        crash_point("sink.4")  # the end of the block has committed

    def close(self) -> None:
        """There is no connection between releases."""

    def _kept(self, schema: PostgresSchema) -> Kept | None:
        if not schema.columns("sink"):
            return None
        line = schema.execute('SELECT "table", release, manifest, next_offset FROM {schema}.sink').fetchone()
        return None if line is None else Kept(line[0], Place(*line[1:]))

    def _make_tables(self, schema: PostgresSchema, layout: Layout, *, is_new: bool) -> None:
        """Makes the tables, or those of cells anew if they have other columns; without cells none are known."""
        if is_new:
            if any(schema.columns(name) for name in (*layout.tables, *NEWEST)):
                raise InputError(
                    f"schema {schema.name} has tables that no sink has made; drop them, or name another with --schema."
                )
            schema.create({**layout.tables, "sink": _STATE}, NEWEST)
        elif layout.parts and schema.columns("cells") != list(layout.cells):
            for view in reversed(list(NEWEST)):
                schema.execute("DROP VIEW IF EXISTS {schema}.{view}", view=view)
            schema.execute("DROP TABLE {schema}.cells")
            schema.create({"cells": layout.cells}, NEWEST)

    def _say(self, schema: PostgresSchema, kept: Kept) -> None:
        schema.execute("DELETE FROM {schema}.sink")
        schema.execute("INSERT INTO {schema}.sink VALUES (%s, %s, %s, %s)", [kept.table, *kept.place])


def _lock(connection: Any, schema: str) -> None:
    """Until the transaction ends."""
    connection.execute("SELECT pg_advisory_xact_lock(hashtext('shoal sink'), hashtext(%s))", [schema])
