"""A release as data frames, of pandas or of Polars."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from shoal.core.published.manifest import PublishedRelease
from shoal.streams.errors import InputError
from shoal.streams.files.extra import import_extra
from shoal.streams.files.tidy import Columns, Layout, Schema, tidy


class Frames(NamedTuple):
    """The tables of one release: its cells, its rows by group and cell, and its values by group."""

    cells: Any
    rows: Any
    values: Any


def make_frames(files: PublishedRelease, kind: str) -> Frames:
    """Data frames of a package of `LIBRARIES`. Raises InputError if there is no such package, or if it is missing."""
    if kind not in LIBRARIES:
        raise InputError(f"frames are made by {' or '.join(LIBRARIES)}; name one of them.")
    library, make = import_extra(kind), LIBRARIES[kind]
    layout = Layout([files])
    found = tidy(files, layout)
    return Frames(*(make(library, found[name], layout.tables[name]) for name in Frames._fields))


def _pandas(pandas: Any, columns: Columns, schema: Schema) -> Any:
    types = {"int": "int64", "float": "float64", "text": "object"}
    return pandas.DataFrame(
        {name: pandas.Series(column, dtype=types[schema[name]]) for name, column in columns.items()}
    )


def _polars(polars: Any, columns: Columns, schema: Schema) -> Any:
    types = {"int": polars.Int64, "float": polars.Float64, "text": polars.String}
    return polars.DataFrame(columns, schema={name: types[schema[name]] for name in columns})


LIBRARIES: Mapping[str, Callable[[Any, Columns, Schema], Any]] = {"pandas": _pandas, "polars": _polars}
