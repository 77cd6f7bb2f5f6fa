"""The mapping file's sections as models: which keys there are, their types and defaults.

Everything that concerns two keys at once, the policy or a file is in mapping.py.
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


class PeopleSection(Section):
    """The table with one row per person."""

    topic: Text
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
    lookup: Annotated[Text | None, Field(description="a CSV file of codes and values")] = None
    trim: Annotated[bool, Field(description="without the spaces around it")] = False
    missing: Annotated[
        Literal["reject", "withhold"], Field(description="a row without a value: a dead letter, or left out")
    ] = "reject"
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

    column: Text | None = None
    array: Text | None = None
    table: ValuesTableSection | None = None
    lookup: Annotated[Text | None, Field(description="a CSV file of codes and values")] = None
    trim: Annotated[bool, Field(description="without the spaces around it")] = False
    none: Annotated[Leaf | None, Field(description="the value of people without one; else they are left out")] = None


class MappingDocument(Section):
    """The whole mapping file."""

    read_later: ClassVar = frozenset({"attributes"})

    people: PeopleSection
    attributes: dict[str, AttributeSection]
    sensitive: ValuesSection


def mapping_schema() -> dict[str, Any]:
    """JSON Schema of the mapping file."""
    schema: dict[str, Any] = without_nulls(MappingDocument.model_json_schema())
    choices = {"AttributeSection": ("column", "constant"), "ValuesSection": ("column", "array", "table")}
    for name, keys in choices.items():
        schema["$defs"][name]["oneOf"] = [{"required": [key]} for key in keys]
    return {"$schema": DIALECT, **schema, "title": "Shoal mapping"}
