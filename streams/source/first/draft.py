"""Writes a first policy and mapping with a comment on every decision; what was not decided is a comment, too."""

from collections.abc import Iterator
from datetime import date
from typing import Final, NamedTuple

from shoal.streams.errors import InputError
from shoal.streams.source.first.file_mapping import is_mapped, write_file_mapping
from shoal.streams.source.first.file_mapping import quoted as _quoted
from shoal.streams.source.first.look import Look
from shoal.streams.source.first.periods import Panel, find_panel
from shoal.streams.source.first.profile import Column, Kind, profile, wide

_FEWEST_VALUES, _MOST_VALUES = 4, 1000  # l is 2, and a value is shown among 2l
_LABELLED: Final = (Kind.LABEL, Kind.TEXT, Kind.POSTCODE, Kind.CODE)
_NUMBERS: Final = (Kind.INT, Kind.FLOAT)


class Draft(NamedTuple):
    """The files by name, and what their author must know, a sentence each."""

    files: dict[str, str]
    notes: list[str]


def draft(
    look: Look, table: str, id_column: str | None, sensitive: str | None, period: str | None, today: date
) -> Draft:
    """A first policy, a mapping, hierarchies. Raises InputError unless it is clear who people are, what is sensitive
    and, if people have several rows, what tells these apart.
    """
    columns = {column.name: column for column in profile(look)}
    ids = _ids(look, columns, id_column)
    panel = find_panel(look, ids, period)
    taken = {*ids} | ({panel.column} if panel else set())
    value = _sensitive(columns, taken, sensitive)
    rest = [column for column in columns.values() if column.name not in (*taken, value.name)]
    files: dict[str, str] = {}
    attributes = [line for column in rest for line in _attribute(column, look, files)]
    if panel:
        attributes.append(f"  # {_quoted(panel.column)} is left out: it names the period, and the releases say that")
    if all(line.lstrip().startswith("#") for line in attributes):
        raise InputError("no column could be a quasi-identifier; write the policy by hand, docs/policy.md says how.")
    files["policy.yaml"] = "\n".join([*_head(look, table), *attributes, *_tail(value)]) + "\n"
    if look.kind == "csv":
        mapping = write_file_mapping(look, ids, panel, rest, value, today)
    else:
        mapping = _source_mapping(look, ids, rest, value)
    files["mapping.yaml"] = "\n".join(mapping) + "\n"
    return Draft(files, [*_notes(look, ids, panel, [*rest, value])])


def _notes(look: Look, ids: tuple[str, ...], panel: Panel | None, columns: list[Column]) -> Iterator[str]:
    if panel:
        yield (
            f"{'/'.join(ids)} repeats: {look.rows:,} rows are about {panel.people:,} people. {panel.column} tells them "
            f"apart, so the mapping takes the file for a panel of {panel.periods:,} periods, with a release after each."
        )
    if panel and panel.doubled:
        rows = "1 row is" if panel.doubled == 1 else f"{panel.doubled:,} rows are"
        yield f"{rows} about a person and a period that an earlier row is about, and will be rejected."
    codes = [column.name for column in columns if column.kind is Kind.CODE]
    if codes:
        yield f"few different whole numbers are taken for codes, not amounts: {', '.join(codes)}."
    missing = [f"{column.name} ({column.missing:,})" for column in columns if column.missing and column.labels]
    if missing:
        yield f"rows without a value: {', '.join(missing)}. The mapping says what becomes of them; the choice is yours."


def _ids(look: Look, columns: dict[str, Column], named: str | None) -> tuple[str, ...]:
    if named is not None:
        if named not in columns:
            raise InputError(f"there is no column {named}; there are {', '.join(columns)}.")
        return (named,)
    if look.key:
        return look.key
    unique = [one.name for one in columns.values() if len(one.labels) == one.rows and not one.missing]
    if len(unique) != 1:
        found = "no column is different on every row, so people have several rows"
        if unique:
            found = f"these are different on every row: {', '.join(unique)}"
        raise InputError(f"name the column of people's ids with --id; {found}.")
    return (unique[0],)


def _sensitive(columns: dict[str, Column], ids: set[str], named: str | None) -> Column:
    if named is None:
        able = [one.name for one in columns.values() if one.name not in ids and _can_be_sensitive(one)]
        raise InputError(
            f"name the sensitive column with --sensitive; of {_FEWEST_VALUES} to {_MOST_VALUES:,} labels are "
            f"{', '.join(able) or 'none'}."
        )
    if named not in columns:
        raise InputError(f"there is no column {named}; there are {', '.join(columns)}.")
    column = columns[named]
    if not _has_enough(column) or named in ids:
        raise InputError(
            f"{named} cannot be the sensitive column: it must have from {_FEWEST_VALUES} to {_MOST_VALUES:,} values, "
            f"and has {len(column.labels):,}."
        )
    if column.flaw is not None:
        raise InputError(f"{named} cannot be the sensitive column: {column.flaw}.")
    return column


def _can_be_sensitive(column: Column) -> bool:
    """Whether its values could be labels that several people share."""
    return (
        column.kind in (Kind.LABEL, Kind.TEXT, Kind.POSTCODE, Kind.CODE) and column.flaw is None and _has_enough(column)
    )


def _has_enough(column: Column) -> bool:
    return _FEWEST_VALUES <= len(column.labels) <= _MOST_VALUES


def _head(look: Look, table: str) -> Iterator[str]:
    yield f"# A first policy, from a look at {look.rows:,} rows of {look.name}."
    yield "# Nothing is decided: read every line. docs/policy.md explains the keys."
    yield "# Domains and labels are public: let them hold what could come, not what was seen."
    yield f"table: {table}"
    yield "attributes:                # what a neighbour may know. Delete those that nobody outside could know"


def _attribute(column: Column, look: Look, files: dict[str, str]) -> Iterator[str]:
    """The line of one column, with what was seen of it; a comment if it is left out."""
    seen = f"on {column.rows - column.missing:,} of {column.rows:,} rows"
    decided = _decide(column, look, files)
    if isinstance(decided, str):
        yield f"  # {_quoted(column.name)} is left out: {decided}"
        return
    section, why = decided
    yield f"  {_quoted(column.name)}: {{{section}}}   # {seen}; {why}"


def _decide(column: Column, look: Look, files: dict[str, str]) -> tuple[str, str] | str:
    """The section of a column and why it is so, or why it is left out. A hierarchy is added to the files."""
    if column.kind in _NUMBERS:
        low, high = wide(column.low, column.high)
        bounds = f"min: {int(low)}, max: {int(high)}" if column.kind is Kind.INT else f"min: {low!r}, max: {high!r}"
        looks = "; without a schema a date looks like this, too" if look.kind == "topic" else ""
        return f"type: {column.kind}, {bounds}", f"the range is rounded: widen it{looks}"
    if column.kind is Kind.DATE:
        return "type: int, min: 0, max: 120", "the mapping makes the date an age: is it a date of birth?"
    if column.kind is Kind.POSTCODE:
        file = f"{_file_name(column.name)}.csv"
        files[file] = "".join(f"{line}\n" for line in _prefixes(sorted(column.labels)))
        return f"type: category, hierarchy: {file}", "digits of one length: by prefix, as a postcode"
    if column.kind is Kind.CODE:
        values = ", ".join(_quoted(label) for label in _in_order(column))
        amounts = f"{{type: int, min: {int(column.low)}, max: {int(column.high)}}}"
        return (
            f"type: category, values: [{values}]",
            f"few whole numbers, so codes: add those that could come. For amounts write {amounts}, with wider bounds",
        )
    if column.kind is Kind.LABEL:
        values = ", ".join(_quoted(label) for label in sorted(column.labels))
        return f"type: category, values: [{values}]", "add labels that could come"
    text = "it has too many texts" if column.flaw is None else column.flaw
    why = {Kind.IDENTIFIER: "it differs on nearly every row", Kind.TEXT: text}
    return why.get(column.kind, "it is empty")


def _prefixes(codes: list[str]) -> Iterator[str]:
    for code in codes:
        yield ";".join([code, *(code[:size] + "*" * (len(code) - size) for size in range(len(code) - 1, 0, -1)), "*"])


def _file_name(name: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in name.lower())


def _in_order(column: Column) -> list[str]:
    return sorted(column.labels, key=float) if column.kind is Kind.CODE else sorted(column.labels)


def _tail(value: Column) -> Iterator[str]:
    values = ", ".join(_quoted(label) for label in _in_order(value))
    yield "sensitive:                 # what nobody may be linked to"
    yield f"  name: {_quoted(value.name)}"
    yield f"  values: [{values}]   # add values that could come; a hierarchy file lets rare ones be shown as a group"
    yield "  # permanent: []          # values that, once true, are true for ever"
    yield "  # open: []               # values that need no protection"
    yield "privacy:"
    yield "  k: 5                     # how many people share a region, at least"
    yield "  l: 2                     # nobody is linked to a value with more than 1/l"
    most, count = value.labels.most_common(1)[0]
    share = count / max(1, value.rows)
    yield f"  # {_quoted(most)} is on {share:.0%} of the rows. `shoal policy check --sample` says what that costs."


def _mapped(column: Column) -> Iterator[str]:
    if not is_mapped(column):
        return
    convert = ", convert: age" if column.kind is Kind.DATE else ""
    missing = ", missing: withhold" if column.missing else ""
    name = _quoted(column.name)
    yield f"  {name}: {{column: {name}{convert}{_trimmed(column)}{missing}}}"


def _trimmed(column: Column) -> str:
    return ", trim: true" if column.trim else ""


def _source_mapping(look: Look, ids: tuple[str, ...], columns: list[Column], value: Column) -> Iterator[str]:
    topic = look.name if look.kind == "topic" else f"PREFIX.{look.name}"
    yield "# Where people come from, for `shoal source POLICY mapping.yaml`. docs/mapping.md explains every key."
    yield "people:"
    yield f"  topic: {_quoted(topic)}" + ("   # PREFIX is the connector's topic.prefix" if look.kind == "table" else "")
    yield f"  id: [{', '.join(_quoted(one) for one in ids)}]   # {'the primary key' if look.key else 'as you said'}"
    yield "attributes:"
    for column in columns:
        yield from _mapped(column)
    yield "sensitive:"
    yield f"  column: {_quoted(value.name)}   # or `table`, if people have a row for each value in another one"
    if value.trim:
        yield "  trim: true   # there are blanks around what was seen"
