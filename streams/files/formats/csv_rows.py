"""Events as the rows of a CSV file: which column is the id, which are attributes, sensitive values and the op.

Without a mapping, columns are named as in the policy: `id`, one per attribute, the sensitive attribute's name, and `op`
if there is one. A row without an op is an insert; with `register` (a voter list) it is a register, which needs no
sensitive value. A mapping file names other columns:

    id: patient_number
    op: change                     # a column of insert, update, delete, register, deregister
    attributes: {zip: postcode}    # those that are not named like their column
    sensitive: [diagnosis, second_diagnosis]
    separator: "|"                 # between several values in one field
    delimiter: ";"
    register: true                 # the file lists the people who exist, and not their records

An empty field is left out of its event: in an update it means "unchanged".
"""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from shoal.core.policy.policy import Attribute, Policy
from shoal.streams.errors import InputError
from shoal.streams.files.formats.format import Blocks, EventReader, FormatChoice, Line

INSERT, REGISTER = "insert", "register"
WITHOUT_RECORD = frozenset({"delete", "deregister", "erase"})


def reader(policy: Policy, choice: FormatChoice) -> "CsvRows":
    """The reader of CSV files under a mapping. Raises `InputError` with every mistake in the mapping."""
    return CsvRows(policy, load_columns(choice.mapping, choice.columns))


class Columns(BaseModel):
    """A mapping as it is written."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    id: str = "id"
    op: str | None = None
    attributes: dict[str, str] = {}
    sensitive: tuple[str, ...] = ()
    separator: Annotated[str, Field(min_length=1)] | None = None
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    register_rows: Annotated[bool, Field(alias="register")] = False

    @field_validator("sensitive", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value


def load_columns(path: Path | None, options: Mapping[str, Any]) -> Columns:
    """Reads a mapping file; `options` win over it. Raises `InputError` with every mistake in it."""
    document: object = {}
    if path is not None:
        try:
            document = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}.") from None
        except (yaml.YAMLError, UnicodeDecodeError):
            raise InputError(f"{path} is not YAML.") from None
    if not isinstance(document, dict):
        raise InputError(f"{path} must be a mapping of names to columns.")
    try:
        return Columns.model_validate({**document, **options})
    except ValidationError as error:
        mistakes = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_input=False)]
        raise InputError(f"the mapping is wrong: {'; '.join(mistakes)}.") from None


class CsvRows(EventReader):
    """Reads the rows of one CSV file."""

    def __init__(self, policy: Policy, columns: Columns) -> None:
        self._policy, self._columns = policy, columns
        self._usual = REGISTER if columns.register_rows else INSERT
        unknown = set(columns.attributes) - {attribute.name for attribute in policy.attributes}
        if unknown:
            raise InputError(f"the mapping names {', '.join(sorted(unknown))}, which the policy does not have.")

    def read(self, blocks: Blocks) -> Iterator[Line]:
        """Yields one `Line` per row. Raises `InputError` if the header lacks a column or the file is no CSV."""
        rows = csv.reader(_text(blocks), delimiter=self._columns.delimiter, strict=True)
        try:
            header = next(rows, None)
            if header is None:
                raise InputError("the CSV file is empty; its first line must name the columns.")
            places = self._places(header)
            for row in rows:
                if row:
                    yield self._line(rows.line_num, row, len(header), places)
        except csv.Error:
            raise InputError(f"line {rows.line_num} and what follows is not CSV.") from None

    def _places(self, header: list[str]) -> dict[str, int]:
        """The position of each wanted column in a row."""
        columns, policy = self._columns, self._policy
        wanted = {"id": columns.id}
        wanted |= {f"qid.{a.name}": columns.attributes.get(a.name, a.name) for a in policy.attributes}
        names = columns.sensitive or (policy.sensitive.name,)
        if columns.register_rows and not columns.sensitive and policy.sensitive.name not in header:
            names = ()
        wanted |= {f"sensitive.{index}": name for index, name in enumerate(names)}
        if columns.op is not None or "op" in header:
            wanted["op"] = columns.op or "op"
        missing = [name for name in wanted.values() if name not in header]
        doubled = [name for name in wanted.values() if header.count(name) > 1]
        if missing or doubled:
            trouble = [f"has no column {name}" for name in missing] + [f"has column {name} twice" for name in doubled]
            raise InputError(
                f"the CSV file {', '.join(trouble)}; name the columns with --id, --attribute and so on, or in a --map."
            )
        return {role: header.index(name) for role, name in wanted.items()}

    def _line(self, number: int, row: list[str], width: int, places: dict[str, int]) -> Line:
        if len(row) != width:
            return Line(number, None, "it does not have as many fields as the header")
        op = row[places["op"]] if "op" in places else ""
        event: dict[str, Any] = {"op": op or self._usual, "id": row[places["id"]]}
        if event["op"] in WITHOUT_RECORD:
            return Line(number, event)
        qid: dict[str, Any] = {}
        for attribute in self._policy.attributes:
            field = row[places[f"qid.{attribute.name}"]]
            if field:
                value = _value(attribute, field)
                if value is None:
                    return Line(number, None, f"{attribute.name} is not a number")
                qid[attribute.name] = value
        values = self._values(row[place] for role, place in places.items() if role.startswith("sensitive."))
        if qid:
            event["qid"] = qid
        if values and event["op"] != REGISTER:
            event["sensitive"] = values
        return Line(number, event)

    def _values(self, fields: Iterable[str]) -> list[str]:
        separator = self._columns.separator
        parts = (part for field in fields for part in (field.split(separator) if separator else (field,)))
        return [part.strip() for part in parts if part.strip()]


def _text(blocks: Blocks) -> Iterator[str]:
    """The lines as text with their ends, which `csv` needs. A byte order mark at the start is left out."""
    for number, line in enumerate((line for block in blocks for line in block), start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise InputError(f"line {number} is not UTF-8 text.") from None
        yield from io.StringIO(text + "\n", newline="")  # some files end their lines with a carriage return alone


def _value(attribute: Attribute, field: str) -> object:
    """A field in the type of its attribute, None if it is not of that type."""
    if attribute.kind == "category":
        return field
    try:
        number = int(field) if attribute.kind == "int" else float(field)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
