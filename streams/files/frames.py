"""A release as data frames, of pandas or of Polars."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from shoal.core.measure.count import Count
from shoal.core.published.manifest import PublishedRelease
from shoal.streams.errors import InputError
from shoal.streams.files.extra import import_extra
from shoal.streams.files.tidy import Columns, Layout, Schema, tidy


class Frames(NamedTuple):
    """The tables of one release: its cells, its rows by group and cell, and its values by group."""

    cells: Any
    rows: Any
    values: Any


def answer_columns(counts: Iterable[Count]) -> Columns:
    """Counts as columns, their likely range as two."""
    lines = [(count.estimate, *count.likely, count.low, count.high) for count in counts]
    names = ("estimate", "likely_low", "likely_high", "low", "high")
    return {name: [line[at] for line in lines] for at, name in enumerate(names)}


def make_frame(labels: Columns, figures: Columns, kind: str) -> Any:
    """One data frame; a label whose name a figure has gets a `_` behind it. Raises InputError as `make_frames` does."""
    named: Columns = {}
    for name, column in labels.items():
        while name in named or name in figures:
            name += "_"
        named[name] = column
    return _library(kind).DataFrame(named | figures)


def make_frames(files: PublishedRelease, kind: str) -> Frames:
    """Data frames of a package of `LIBRARIES`. Raises InputError if there is no such package, or if it is missing."""
    library, make = _library(kind), LIBRARIES[kind]
    layout = Layout([files])
    found = tidy(files, layout)
    return Frames(*(make(library, found[name], layout.tables[name]) for name in Frames._fields))


def _library(kind: str) -> Any:
    if kind not in LIBRARIES:
        raise InputError(f"frames are made by {' or '.join(LIBRARIES)}; name one of them.")
    return import_extra(kind)


def _pandas(pandas: Any, columns: Columns, schema: Schema) -> Any:
    types = {"int": "int64", "float": "float64", "text": "object"}
    return pandas.DataFrame(
        {name: pandas.Series(column, dtype=types[schema[name]]) for name, column in columns.items()}
    )


def _polars(polars: Any, columns: Columns, schema: Schema) -> Any:
    types = {"int": polars.Int64, "float": polars.Float64, "text": polars.String}
    return polars.DataFrame(columns, schema={name: types[schema[name]] for name in columns})


LIBRARIES: Mapping[str, Callable[[Any, Columns, Schema], Any]] = {"pandas": _pandas, "polars": _polars}
