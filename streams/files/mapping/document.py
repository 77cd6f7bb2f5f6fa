"""The mapping file's sections as models: which keys there are, their types and defaults.

Everything that concerns two keys at once, the policy, a file, or whether a CSV file or `shoal source` is read, is in
mapping.py.
"""

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from shoal.core.policy.document import Leaf, Text
from shoal.core.policy.section import LARGEST_COUNT, Section
from shoal.core.schema import DIALECT, without_nulls


def _one_is_a_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


_TEXT: Final = {"type": "string", "minLength": 1}
Columns = Annotated[
    list[Text],
    Field(min_length=1),
    BeforeValidator(_one_is_a_list),
    WithJsonSchema({"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1, "uniqueItems": True}]}),
]
Unit = Annotated[
    Literal["days", "millis", "micros", "nanos"],
    Field(description="what a date or time counts, where the records have no schema; days unless given"),
]
Scale = Annotated[
    int,
    Field(ge=0, le=1000, description="decimals of a number in base64, where the records have no schema"),
]


Lookup = Annotated[
    Text | dict[str, Leaf],
    Field(description="codes and their values: a CSV file of two columns, or a mapping in place"),
]
NoValue = Annotated[list[Leaf], Field(description="texts that mean the same as an empty field")]


Missing = Annotated[
    Literal["reject", "withhold"], Field(description="a row without a value: rejected, or its person left out")
]


class FileSection(Section):
    """How a CSV file is written."""

    delimiter: Annotated[str, Field(min_length=1, max_length=1, description="between the fields of a line")] = ","
    op: Annotated[Text | None, Field(description="the column with each row's op; insert without one")] = None
    at: Annotated[Text | None, Field(description="the column with the time that a row of op release names")] = None
    registers: Annotated[
        bool, Field(description="the file lists who exists: a row without an op registers a person")
    ] = False
    day: Annotated[Text | None, Field(description="the day on which the rows are true; ages are as of then")] = None


class PeriodSection(Section):
    """What tells the periods of a panel apart: exactly one of the two."""

    column: Text | None = None
    file_name: Annotated[bool, Field(description="each file is one period, which its name says")] = False


class PeopleSection(Section):
    """The table with one row per person."""

    topic: Annotated[Text | None, Field(description="Debezium's topic; `shoal source` needs it")] = None
    id: Annotated[Columns, Field(description="the column, or the columns, of a person's id: a part of the key")]


class AttributeSection(Section):
    """Where a quasi-identifier comes from: exactly one of `column` and `constant`."""

    column: Text | None = None
    constant: Leaf | float | None = None
    convert: Annotated[
        Literal["age", "year"] | None, Field(description="a date to full years until today, or to its year")
    ] = None
    bin: Annotated[
        float | None, Field(gt=0, le=LARGEST_COUNT, description="a number to the largest multiple that is not above it")
    ] = None
    lookup: Lookup | None = None
    trim: Annotated[bool, Field(description="without the spaces around it")] = False
    no_value: NoValue = Field(default=[])
    missing: Missing = "reject"
    missing_value: Annotated[Leaf | float | None, Field(description="a row without a value has this one")] = None
    unit: Unit | None = None
    scale: Scale | None = None


class ValuesTableSection(Section):
    """A second table, with one row per person and value."""

    topic: Text
    id: Annotated[Columns, Field(description="the column, or the columns, with the person's id")]
    column: Text
    start: Annotated[Text | None, Field(description="the column with the day from which the value holds")] = None
    end: Annotated[Text | None, Field(description="the column with the first day on which it does not any more")] = None
    unit: Unit | None = None


class ValuesSection(Section):
    """Where the sensitive values come from: exactly one of `column`, `array` and `table`."""

    read_later: ClassVar = frozenset({"table"})

    column: Columns | None = None
    array: Text | None = None
    table: ValuesTableSection | None = None
    separator: Annotated[Text | None, Field(description="between several values in one field")] = None
    lookup: Lookup | None = None
    trim: Annotated[bool, Field(description="without the spaces around it")] = False
    no_value: NoValue = Field(default=[])
    missing: Annotated[
        Literal["reject", "withhold"] | None,
        Field(description="people without a value: rejected (a CSV file's default) or left out (a database's)"),
    ] = None
    none: Annotated[Leaf | None, Field(description="instead of missing: the value of people without one")] = None


class MappingDocument(Section):
    """The whole mapping file."""

    read_later: ClassVar = frozenset({"attributes", "sensitive", "period"})

    file: FileSection = FileSection()
    people: PeopleSection
    period: PeriodSection | None = None
    attributes: dict[str, AttributeSection]
    sensitive: ValuesSection | None = None


def mapping_schema() -> dict[str, Any]:
    """JSON Schema of the mapping file."""
    schema: dict[str, Any] = without_nulls(MappingDocument.model_json_schema())
    choices = {
        "AttributeSection": ("column", "constant"),
        "ValuesSection": ("column", "array", "table"),
        "PeriodSection": ("column", "file_name"),
    }
    for name, keys in choices.items():
        schema["$defs"][name]["oneOf"] = [{"required": [key]} for key in keys]
    columns = {"type": "array", "items": _TEXT, "minItems": 1, "uniqueItems": True}
    sections, attributes = schema["properties"], schema["properties"]["attributes"]
    attributes["additionalProperties"] = {"anyOf": [attributes["additionalProperties"], _TEXT]}
    sections["period"] = {"anyOf": [{"$ref": "#/$defs/PeriodSection"}, _TEXT]}
    sections["sensitive"] = {"anyOf": [{"$ref": "#/$defs/ValuesSection"}, _TEXT, columns]}
    return {"$schema": DIALECT, **schema, "title": "Shoal mapping"}
