"""A mapping: from which columns a table's people come, checked against its policy.

One language serves CSV files and `shoal source`, which reads topics. A key that only one of the two has a use for is a
mistake in a mapping for the other, except `people.topic`: a mapping for `shoal source` may be tried on a CSV of the
same table. A wrong mapping is refused with every mistake in it, each with its place in the file, as a policy is.
"""

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from shoal.core.errors import Mistake
from shoal.core.events.event import Reject
from shoal.core.events.record import RecordReader
from shoal.core.policy.policy import Attribute, Policy
from shoal.core.policy.section import did_you_mean, read_section
from shoal.streams.errors import InputError
from shoal.streams.files.mapping.conversion import AttributeRule, Spell, ValueRule
from shoal.streams.files.mapping.document import (
    AttributeSection,
    MappingDocument,
    PeriodSection,
    ValuesSection,
    ValuesTableSection,
)
from shoal.streams.files.mapping.moments import day_of
from shoal.streams.files.policy_yaml import Document

_OF_A_COLUMN: Final = ("convert", "bin", "lookup", "missing_value", "unit", "scale", "no_value")
_OF_A_DATABASE: Final = ("unit", "scale")
_EXAMPLE_DAY: Final = "2024-12-31"
_SOURCES: Final = ("column", "array", "table")


class Reads(StrEnum):
    """What a mapping is for."""

    TOPICS = "shoal source"
    FILES = "CSV files"


@dataclass(frozen=True, kw_only=True)
class CapturedTable:
    """A table of the database: its topic, the columns of the person's id, and all columns that are read."""

    topic: str
    id_columns: tuple[str, ...]
    columns: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class FileRule:
    """How a CSV file is written. `day` is when its rows are true; None for a panel, or if no age asks."""

    delimiter: str = ","
    op: str | None = None
    at: str | None = None
    registers: bool = False
    day: date | None = None


@dataclass(frozen=True, kw_only=True)
class PeriodRule:
    """Where the period of a panel's row stands: in a column, or else in the name of its file."""

    column: str | None


@dataclass(frozen=True, kw_only=True)
class TableMapping:
    """Everything a mapping file says, checked. Without `values_table` the values are columns of the people's table.

    A list of who exists has no columns of values. People without a value have the value `none`; without one they are
    left out or, with `rejects_no_value`, rejected.
    """

    people: CapturedTable
    values_table: CapturedTable | None
    attributes: tuple[AttributeRule, ...]
    values: ValueRule
    spell: Spell | None
    none: str | None
    rejects_no_value: bool = False
    file: FileRule = FileRule()
    period: PeriodRule | None = None

    @property
    def tables(self) -> tuple[CapturedTable, ...]:
        return (self.people,) if self.values_table is None else (self.people, self.values_table)

    @property
    def fingerprint(self) -> str:
        """What must not change under rows that are kept: topics and columns."""
        named = [(table.topic, table.id_columns, sorted(table.columns)) for table in self.tables]
        return hashlib.sha256(json.dumps(named).encode()).hexdigest()[:16]


def load_mapping(
    path: Path, policy: Policy, reads: Reads = Reads.TOPICS, options: Mapping[str, Any] | None = None
) -> TableMapping:
    """The mapping in a file, with the lookup files it names (relative to it). Raises InputError with every mistake.

    `options` are sections, or keys of sections, that win over the file's.
    """
    try:
        source = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: the mapping cannot be read ({error.strerror or 'unknown reason'})") from None
    document = Document(path, source, "mapping")
    builder = _Builder(policy, path.parent, reads)
    mapping = builder.build(_merge(document.content, options or {}))
    wrong = [*document.mistakes, *(document.locate(mistake) for mistake in builder.mistakes)]
    if wrong or mapping is None:
        raise document.error(wrong)
    return mapping


def plain_mapping(policy: Policy, options: Mapping[str, Any] | None = None) -> TableMapping:
    """The mapping of a CSV file whose columns are named as in the policy, but for `options`. Raises InputError."""
    plain: dict[str, Any] = {
        "people": {"id": "id"},
        "attributes": {attribute.name: attribute.name for attribute in policy.attributes},
        "sensitive": {"column": policy.sensitive.name},
    }
    told = options or {}
    if told.get("file", {}).get("registers") and "sensitive" not in told:
        del plain["sensitive"]
    builder = _Builder(policy, Path(), Reads.FILES)
    mapping = builder.build(_merge(plain, options or {}))
    if mapping is None:
        raise InputError(f"the names of columns are wrong: {'; '.join(map(str, builder.mistakes))}.")
    return mapping


def _merge(document: object, options: Mapping[str, Any]) -> object:
    """The document with some keys of its sections replaced."""
    if not isinstance(document, dict):
        return document
    merged = dict(document)
    for name, keys in options.items():
        section = _as_section(merged.get(name))
        merged[name] = {**section, **keys} if isinstance(section, dict) else dict(keys)
    return merged


def _as_section(raw: object) -> object:
    """The short form of a section, a name or a list of them, as the section it stands for."""
    return {"column": raw} if isinstance(raw, str | list) else raw


class _Builder:
    """Turns a document into a mapping and collects what is wrong with it."""

    def __init__(self, policy: Policy, folder: Path, reads: Reads) -> None:
        self._policy, self._folder, self._reads = policy, folder, reads
        self._reader = RecordReader(policy)
        self.mistakes: list[Mistake] = []

    def build(self, document: object) -> TableMapping | None:
        """None if anything is wrong."""
        read = read_section(MappingDocument, document, (), self.mistakes)
        people = read.get("people") or {}
        file = read.get("file") or {}
        period = self._period(read.get("period"))
        attributes = self._attributes(read.get("attributes"))
        rule, sensitive, second = self._sensitive(read.get("sensitive"), is_needed=not file.get("registers"))
        if second is not None and second.get("topic") == people.get("topic"):
            self._wrong("must not be the topic of people", "sensitive", "table", "topic")
        if self._reads is Reads.TOPICS:
            self._check_topics(document, people)
        shape = self._file(file, attributes, period)
        if self.mistakes:
            return None
        columns = {one.column for one in attributes if one.column} | set(people["id"])
        if second is None:
            columns.update(rule.columns)
        missing = sensitive.get("missing") or ("reject" if self._reads is Reads.FILES else "withhold")
        return TableMapping(
            people=_captured(people, columns),
            values_table=None if second is None else _captured(second, _columns_of(second)),
            attributes=tuple(attributes),
            values=rule,
            spell=_spell(second),
            none=sensitive.get("none"),
            rejects_no_value=missing == "reject",
            file=shape,
            period=period,
        )

    def _check_topics(self, document: object, people: Mapping[str, Any]) -> None:
        for name in ("file", "period"):
            if isinstance(document, dict) and name in document:
                self._wrong(f"is for {Reads.FILES}, and {Reads.TOPICS} reads topics", name, at_key=True)
        if people and not people.get("topic"):
            self._wrong(f"is missing; {Reads.TOPICS} needs it", "people", "topic")

    def _period(self, raw: object) -> PeriodRule | None:
        if raw is None:
            return None
        read = read_section(PeriodSection, _as_section(raw), ("period",), self.mistakes)
        if ((read.get("column") is None) == (not read.get("file_name"))) and read:
            self._wrong("must have either column or file_name: true", "period")
        return PeriodRule(column=read.get("column"))

    def _file(self, read: Mapping[str, Any], attributes: list[AttributeRule], period: PeriodRule | None) -> FileRule:
        if not read or self._reads is Reads.TOPICS:
            return FileRule()
        for key in ("op", "registers"):
            if period is not None and read.get(key):
                self._wrong("goes with events, and a panel has none: its rows say how things are", "file", key)
        day = None if read.get("day") is None else day_of(read["day"], None)
        if read.get("day") is not None and day is None:
            self._wrong("must be a date, such as 2024-12-31", "file", "day")
        ages = [rule.name for rule in attributes if rule.convert == "age"]
        if ages and period is None and read.get("day") is None:
            self._wrong(
                f"needs the day on which the file is true: name it in file.day, such as {{day: {_EXAMPLE_DAY}}}",
                "attributes",
                ages[0],
                "convert",
            )
        return FileRule(
            delimiter=read.get("delimiter", ","),
            op=read.get("op"),
            at=read.get("at"),
            registers=read.get("registers", False),
            day=day,
        )

    def _wrong(self, message: str, *path: str, at_key: bool = False) -> None:
        self.mistakes.append(Mistake(path, message, at_key))

    def _attributes(self, raw: object) -> list[AttributeRule]:
        if raw is None:
            return []
        if not isinstance(raw, dict):
            self._wrong("must be a mapping of names to columns", "attributes")
            return []
        known = {attribute.name: attribute for attribute in self._policy.attributes}
        for name in raw:
            if name not in known:
                hint = did_you_mean(name, known)
                self._wrong(f"is not an attribute of the policy{hint}", "attributes", name, at_key=True)
        missing = [name for name in known if name not in raw]
        if missing:
            self._wrong(f"lacks {', '.join(missing)}, which the policy has", "attributes")
        return [rule for name in known if name in raw for rule in self._attribute(known[name], raw[name])]

    def _attribute(self, attribute: Attribute, raw: object) -> Iterator[AttributeRule]:
        path = ("attributes", attribute.name)
        before = len(self.mistakes)
        raw = _as_section(raw)
        read = read_section(AttributeSection, raw, path, self.mistakes)
        if len(self.mistakes) > before:
            return
        if (read["column"] is None) == (read["constant"] is None):
            self._wrong("must have either column or constant", *path)
            return
        if read["constant"] is not None:
            for key in _OF_A_COLUMN:
                if read[key]:
                    self._wrong("is for a column, and a constant needs none", *path, key, at_key=True)
        if attribute.kind == "category":
            for key in ("convert", "bin"):
                if read[key] is not None:
                    self._wrong("is for numbers, and the policy has a category", *path, key, at_key=True)
        if self._reads is Reads.FILES:
            for key in _OF_A_DATABASE:
                if read[key] is not None:
                    self._wrong(f"is for {Reads.TOPICS}: a field of a CSV file is text", *path, key, at_key=True)
        if read["missing_value"] is not None and "missing" in (raw if isinstance(raw, dict) else ()):
            self._wrong("says what missing says otherwise; keep one of the two", *path, "missing_value", at_key=True)
        lookup = self._lookup(read["lookup"], path)
        for key in ("constant", "missing_value"):
            if read[key] is not None:
                read[key] = self._typed(attribute, read[key], (*path, key))
        rule = AttributeRule(
            name=attribute.name,
            kind=attribute.kind,
            column=read["column"],
            constant=read["constant"],
            convert=read["convert"],
            bin=read["bin"],
            lookup=lookup,
            trim=read["trim"],
            no_value=frozenset(read["no_value"]),
            withholds=read["missing"] == "withhold",
            missing_value=read["missing_value"],
            unit=read["unit"],
            scale=read["scale"],
        )
        if lookup is not None and attribute.kind == "category":
            self._check_targets(lookup, (*path, "lookup"), lambda label: self._reader.read_patch({rule.name: label}))
        yield rule

    def _sensitive(self, raw: object, *, is_needed: bool) -> tuple[ValueRule, dict[str, Any], dict[str, Any] | None]:
        """The rule for values, its section, and the section of the second table if there is one."""
        nothing = ValueRule(columns=())
        if raw is None:
            if is_needed:
                self._wrong("is missing", "sensitive")
            return nothing, {}, None
        before = len(self.mistakes)
        read = read_section(ValuesSection, _as_section(raw), ("sensitive",), self.mistakes)
        if read.get("none") is not None:
            self._check_label(read["none"], ("sensitive", "none"))
            if read.get("missing") is not None:
                self._wrong("says what missing says otherwise; keep one of the two", "sensitive", "none", at_key=True)
        named = [key for key in _SOURCES if read.get(key) is not None]
        if len(named) != 1:
            if read:
                self._wrong("must have exactly one of column, array and table", "sensitive")
            return nothing, read, None
        if self._reads is Reads.FILES and named != ["column"]:
            self._wrong(f"is for {Reads.TOPICS}; a CSV file has columns", "sensitive", named[0], at_key=True)
        if len(self.mistakes) > before:
            return nothing, read, None
        second: dict[str, Any] | None = None
        columns = tuple(read["column"] or (read["array"],))
        if named == ["table"]:
            second = read_section(ValuesTableSection, read["table"], ("sensitive", "table"), self.mistakes)
            columns = (second.get("column") or "",)
        lookup = self._lookup(read["lookup"], ("sensitive",))
        if lookup is not None:
            self._check_targets(lookup, ("sensitive", "lookup"), self._reader.read_values)
        return (
            ValueRule(
                columns=columns,
                is_array=named == ["array"],
                separator=read["separator"],
                lookup=lookup,
                trim=read["trim"],
                no_value=frozenset(read["no_value"]),
            ),
            read,
            second,
        )

    def _typed(self, attribute: Attribute, value: Any, path: tuple[str, ...]) -> Any:
        """A number for an attribute of numbers. YAML's 7 is a label where the policy has a category."""
        if attribute.kind != "category" and isinstance(value, str):
            try:
                value = float(value) if attribute.kind == "float" else int(value)
            except ValueError:
                self._wrong("must be a number, as the policy has it", *path)
                return value
        read = self._reader.read_patch({attribute.name: value})
        if isinstance(read, Reject):
            self._wrong(f"is {read.reason} under the policy", *path)
        return value

    def _check_label(self, label: str, path: tuple[str, ...]) -> None:
        read = self._reader.read_values(label)
        if isinstance(read, Reject):
            self._wrong(f"is {read.reason} under the policy", *path)

    def _check_targets(self, lookup: Mapping[str, str], path: tuple[str, ...], read: Any) -> None:
        wrong = sorted({label for label in lookup.values() if isinstance(read(label), Reject)})
        if wrong:
            self._wrong(f"leads to {', '.join(wrong[:5])}, which the policy does not have", *path)

    def _lookup(self, name: str | dict[str, str] | None, path: tuple[str, ...]) -> dict[str, str] | None:
        """Codes and what they stand for: in place, or in a CSV file of two columns, without a header."""
        if name is None or isinstance(name, dict):
            return name
        try:
            text = (self._folder / name).read_text(encoding="utf-8-sig")
            rows = [[field.strip() for field in row] for row in csv.reader(io.StringIO(text), strict=True) if row]
        except (OSError, UnicodeDecodeError, csv.Error):
            self._wrong("is not a CSV file that can be read", *path, "lookup")
            return None
        if not rows or any(len(row) != 2 or not row[1] for row in rows):
            self._wrong("must have two fields on each line, a code and its value", *path, "lookup")
            return None
        found = {code: value for code, value in rows}  # noqa: C416 - two fields each, which mypy cannot know
        if len(found) != len(rows):
            self._wrong("has a code twice", *path, "lookup")
        return found


def _captured(section: Mapping[str, Any], columns: set[str]) -> CapturedTable:
    return CapturedTable(topic=section["topic"] or "", id_columns=tuple(section["id"]), columns=frozenset(columns))


def _columns_of(second: Mapping[str, Any]) -> set[str]:
    return {*second["id"], second["column"], *(second[key] for key in ("start", "end") if second[key])}


def _spell(second: Mapping[str, Any] | None) -> Spell | None:
    if second is None or not (second["start"] or second["end"]):
        return None
    return Spell(start=second["start"], end=second["end"], unit=second["unit"])
