"""Writes the first mapping of a CSV file, with a comment on every decision."""

import json
from collections.abc import Iterator
from datetime import date

from shoal.streams.source.first.look import Look
from shoal.streams.source.first.periods import Panel
from shoal.streams.source.first.profile import Column, Kind


def quoted(text: str) -> str:
    """Text as it may stand anywhere in YAML."""
    return json.dumps(text, ensure_ascii=False)


def is_mapped(column: Column) -> bool:
    """Whether the policy has an attribute for a column."""
    return column.kind not in (Kind.EMPTY, Kind.IDENTIFIER, Kind.TEXT)


def write_file_mapping(
    look: Look, ids: tuple[str, ...], panel: Panel | None, columns: list[Column], value: Column, today: date
) -> Iterator[str]:
    """The lines of the mapping."""
    yield f"# Columns of {look.name}, for `shoal replay`, `shoal produce` and `shoal policy check --sample`, each with"
    yield "# --map mapping.yaml. docs/mapping.md explains every key."
    names_no_day = panel is None or panel.first.day is None
    needs_day = names_no_day and any(column.kind is Kind.DATE and is_mapped(column) for column in columns)
    if look.delimiter != "," or needs_day:
        yield "file:"
        if look.delimiter != ",":
            yield f"  delimiter: {quoted(look.delimiter)}"
        if needs_day:
            yield f"  day: {today.isoformat()}   # the day on which the rows are true: ages are as of then. Change it"
    yield "people:"
    yield f"  id: {quoted(ids[0])}"
    if panel is not None:
        when = "no time" if panel.first.at is None else f"the time {panel.first.at}"
        yield f"period: {quoted(panel.column)}   # {panel.periods:,} periods; the first release names {when}"
    else:
        yield "# period: {file_name: true}   # then people-2024.csv is the table of 2024, and a release follows it"
    yield "attributes:"
    for column in columns:
        if is_mapped(column):
            yield _line(column)
    yield "sensitive:"
    yield f"  column: {quoted(value.name)}"
    if value.trim:
        yield "  trim: true   # there are blanks around what was seen"
    if value.no_value:
        yield f"  no_value: {_list(value)}   # seen, and taken for an empty field"
    if value.missing:
        yield f"  missing: withhold   # {_missing(value)}; or reject, or in its place none: A_LABEL_OF_THE_POLICY"


def _line(column: Column) -> str:
    name = quoted(column.name)
    keys = [f"column: {name}"]
    if column.kind is Kind.DATE:
        keys.append("convert: age")
    if column.trim:
        keys.append("trim: true")
    if column.no_value:
        keys.append(f"no_value: {_list(column)}")
    if column.missing:
        keys.append("missing: withhold")
    said = []
    if column.kind is Kind.DATE:
        said.append("full years on the first day of the period, or on file.day; convert: year for the year")
    if column.missing:
        said.append(f"{_missing(column)}; or missing: reject, or missing_value: A_VALUE_OF_THE_POLICY")
    comment = f"   # {'. '.join(said)}" if said else ""
    return f"  {name}: {{{', '.join(keys)}}}{comment}"


def _list(column: Column) -> str:
    return f"[{', '.join(map(quoted, column.no_value))}]"


def _missing(column: Column) -> str:
    rows = "row has" if column.missing == 1 else "rows have"
    return f"{column.missing:,} {rows} no value: their people are left out"
