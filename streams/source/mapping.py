"""A mapping: from which topics and columns a table's people come, checked against its policy.

A wrong mapping is refused with every mistake in it, each with its place in the file, as a policy is.
"""

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from shoal.core.errors import Mistake
from shoal.core.events.event import Reject
from shoal.core.events.record import RecordReader
from shoal.core.policy.policy import Attribute, Policy
from shoal.core.policy.section import did_you_mean, read_section
from shoal.streams.errors import InputError
from shoal.streams.files.mapping_document import AttributeSection, MappingDocument, ValuesTableSection
from shoal.streams.files.policy_yaml import Document
from shoal.streams.source.conversion import AttributeRule, Spell, ValueRule

_OF_A_COLUMN: Final = ("convert", "bin", "lookup", "missing_value", "unit", "scale")
_SOURCES: Final = ("column", "array", "table")


@dataclass(frozen=True, kw_only=True)
class CapturedTable:
    """A table of the database: its topic, the columns of the person's id, and all columns that are read."""

    topic: str
    id_columns: tuple[str, ...]
    columns: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class TableMapping:
    """Everything a mapping file says, checked. Without `values_table` the values are columns of the people's table."""

    people: CapturedTable
    values_table: CapturedTable | None
    attributes: tuple[AttributeRule, ...]
    values: ValueRule
    spell: Spell | None
    none: str | None

    @property
    def tables(self) -> tuple[CapturedTable, ...]:
        return (self.people,) if self.values_table is None else (self.people, self.values_table)

    @property
    def fingerprint(self) -> str:
        """What must not change under rows that are kept: topics and columns."""
        named = [(table.topic, table.id_columns, sorted(table.columns)) for table in self.tables]
        return hashlib.sha256(json.dumps(named).encode()).hexdigest()[:16]


def load_mapping(path: Path, policy: Policy) -> TableMapping:
    """The mapping in a file, with the lookup files it names (relative to it). Raises InputError with every mistake."""
    try:
        source = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: the mapping cannot be read ({error.strerror or 'unknown reason'})") from None
    document = Document(path, source, "mapping")
    builder = _Builder(policy, path.parent)
    mapping = builder.build(document.content)
    wrong = [*document.mistakes, *(document.locate(mistake) for mistake in builder.mistakes)]
    if wrong or mapping is None:
        raise document.error(wrong)
    return mapping


class _Builder:
    """Turns a document into a mapping and collects what is wrong with it."""

    def __init__(self, policy: Policy, folder: Path) -> None:
        self._policy, self._folder = policy, folder
        self._reader = RecordReader(policy)
        self.mistakes: list[Mistake] = []

    def build(self, document: object) -> TableMapping | None:
        """None if anything is wrong."""
        read = read_section(MappingDocument, document, (), self.mistakes)
        attributes = self._attributes(read.get("attributes"))
        sensitive, people = read.get("sensitive") or {}, read.get("people") or {}
        rule, second = self._values(sensitive)
        none = sensitive.get("none")
        if none is not None:
            self._check_label(none, ("sensitive", "none"))
        if second is not None and second.get("topic") == people.get("topic"):
            self._wrong("must not be the topic of people", "sensitive", "table", "topic")
        if self.mistakes or rule is None:
            return None
        columns = {rule.column for rule in attributes if rule.column} | set(people["id"])
        if second is None:
            columns.add(rule.column)
        return TableMapping(
            people=_captured(people, columns),
            values_table=None if second is None else _captured(second, _columns_of(second)),
            attributes=tuple(attributes),
            values=rule,
            spell=_spell(second),
            none=none,
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
        read = read_section(AttributeSection, raw, path, self.mistakes)
        if len(self.mistakes) > before:
            return
        if (read["column"] is None) == (read["constant"] is None):
            self._wrong("must have either column or constant", *path)
            return
        if read["constant"] is not None:
            for key in _OF_A_COLUMN:
                if read[key] is not None:
                    self._wrong("is for a column, and a constant needs none", *path, key, at_key=True)
        if attribute.kind == "category":
            for key in ("convert", "bin"):
                if read[key] is not None:
                    self._wrong("is for numbers, and the policy has a category", *path, key, at_key=True)
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
            withholds=read["missing"] == "withhold",
            missing_value=read["missing_value"],
            unit=read["unit"],
            scale=read["scale"],
        )
        if lookup is not None and attribute.kind == "category":
            self._check_targets(lookup, (*path, "lookup"), lambda label: self._reader.read_patch({rule.name: label}))
        yield rule

    def _values(self, read: Mapping[str, Any]) -> tuple[ValueRule | None, dict[str, Any] | None]:
        """The rule for values, and the section of the second table if there is one."""
        named = [key for key in _SOURCES if read.get(key) is not None]
        if not read or len(named) != 1:
            if read:
                self._wrong("must have exactly one of column, array and table", "sensitive")
            return None, None
        second: dict[str, Any] | None = None
        column = read["column"] or read["array"]
        if named == ["table"]:
            second = read_section(ValuesTableSection, read["table"], ("sensitive", "table"), self.mistakes)
            column = second.get("column")
        lookup = self._lookup(read["lookup"], ("sensitive",))
        if lookup is not None:
            self._check_targets(lookup, ("sensitive", "lookup"), self._reader.read_values)
        rule = ValueRule(column=column or "", is_array=named == ["array"], lookup=lookup, trim=read["trim"])
        return rule, second

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

    def _lookup(self, name: str | None, path: tuple[str, ...]) -> dict[str, str] | None:
        """Codes and what they stand for: a CSV file of two columns, without a header."""
        if name is None:
            return None
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
    return CapturedTable(topic=section["topic"], id_columns=tuple(section["id"]), columns=frozenset(columns))


def _columns_of(second: Mapping[str, Any]) -> set[str]:
    return {*second["id"], second["column"], *(second[key] for key in ("start", "end") if second[key])}


def _spell(second: Mapping[str, Any] | None) -> Spell | None:
    if second is None or not (second["start"] or second["end"]):
        return None
    return Spell(start=second["start"], end=second["end"], unit=second["unit"])
