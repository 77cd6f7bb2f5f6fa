"""The policy file's sections as models: which keys there are, their types, ranges and defaults."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from shoal.core.policy.hierarchy import ROOT, wrong_label
from shoal.core.policy.section import LARGEST_COUNT, QUOTE_IT, Count, Section
from shoal.core.policy.strategy import Strategy

# Larger whole numbers are not exact as floats, which readers of JSON and the tree's medians rely on.
LARGEST_INT = 2**53


def _read_noun(value: object, noun: str) -> str:
    if not isinstance(value, str):
        raise PydanticCustomError("text", QUOTE_IT)
    wrong = wrong_label(value, noun)
    if wrong:
        raise PydanticCustomError("text", "{wrong}", {"wrong": wrong})
    return value


def _read_text(value: object) -> str:
    return _read_noun(value, "text")


def _read_leaf(value: object) -> str:
    """A label. A whole number is its text, as in events; anything else YAML takes for no text must be quoted."""
    label = _read_noun(str(value) if type(value) is int else value, "label")
    if label == ROOT:
        raise PydanticCustomError("leaf", '"*" stands for everything and cannot be a value')
    return label


def _read_participation(value: object) -> int | str:
    if value == "all":
        return "all"
    if type(value) is int and 0 <= value <= LARGEST_COUNT:
        return value
    raise PydanticCustomError("participation", "must be a whole number from 0 up, or all")


Text = Annotated[str, BeforeValidator(_read_text), WithJsonSchema({"type": "string", "minLength": 1})]
Leaf = Annotated[
    str,
    BeforeValidator(_read_leaf),
    WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1, "not": {"const": ROOT}}, {"type": "integer"}]}),
]
Leaves = Annotated[list[Leaf], Field(min_length=1, json_schema_extra={"uniqueItems": True})]
CountOrZero = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]
Participation = Annotated[
    int | Literal["all"],
    BeforeValidator(_read_participation),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"const": "all"}]}),
]
Whole = Annotated[int, Field(ge=-LARGEST_INT, le=LARGEST_INT)]


class IntSection(Section):
    """A quasi-identifier of whole numbers."""

    type: Literal["int"]
    min: Whole
    max: Whole


class FloatSection(Section):
    """A quasi-identifier of any finite numbers."""

    type: Literal["float"]
    min: float
    max: float


class CategorySection(Section):
    """A quasi-identifier of labels: exactly one of `values` and `hierarchy`."""

    type: Literal["category"]
    values: Leaves | None = None
    hierarchy: Text | None = None


ATTRIBUTE_SECTIONS: dict[str, type[Section]] = {
    "int": IntSection,
    "float": FloatSection,
    "category": CategorySection,
}


class SensitiveSection(Section):
    """The sensitive attribute: exactly one of `values` and `hierarchy`."""

    name: Text
    values: Leaves | None = None
    hierarchy: Text | None = None
    permanent: list[Leaf] = Field(default=[], description="values that, once true, are true for ever")
    open: list[Leaf] = Field(default=[], description="values that need no protection")


class PrivacySection(Section):
    """The promises."""

    read_later: ClassVar = frozenset({"strategy"})

    k: Count
    l: Annotated[float, Field(gt=1, le=LARGEST_COUNT)]
    values: Annotated[
        Literal["lasting", "redrawn"],
        Field(description="whether values stay until an event changes them, or are drawn anew for each group"),
    ] = "lasting"
    insiders: Annotated[
        CountOrZero | None,
        Field(description="lasting: how many people of the table the adversary may be or have asked; 0 unless given"),
    ] = None
    signature: Annotated[
        Count | None,
        Field(description="lasting: how many values each value is shown among; 2l + insiders unless given"),
    ] = None
    batch: Annotated[
        Count | None, Field(description="lasting: new values wait as * until so many wait; 4 signatures unless given")
    ] = None
    strategy: Strategy | None = None
    headroom: CountOrZero | None = None
    participation: Participation = 0
    sampling: Annotated[float, Field(gt=0, le=1, description="the share of people who may be published")] = 1.0
    overlap: Count = 2
    search: Count = 32


class ScaleSection(Section):
    """How a large table is divided."""

    shards: Annotated[Count, Field(description="lasting: regions that are planned apart")] = 1


class ReleaseSection(Section):
    """What makes a release, other than a request for one, and what it holds."""

    full_every: Annotated[Count, Field(description="between full releases, only what changed")] = 1
    every_events: Count | None = None
    every_seconds: Annotated[float | None, Field(gt=0, le=LARGEST_COUNT)] = None
    min_seconds: Annotated[float | None, Field(gt=0, le=LARGEST_COUNT)] = None
    at: Text | None = None
    timezone: Annotated[Text | None, Field(description="of `at`; UTC unless given")] = None
    case_ids: bool = False


class SnapshotSection(Section):
    """When the worker writes snapshots, and where they go."""

    every_releases: Annotated[Count, Field(description="a snapshot after so many releases")]
    keep: Annotated[Count, Field(description="how many snapshots stay")] = 3
    to: Annotated[Text, Field(description="a folder; a relative one is beside the policy file")]


class PolicyDocument(Section):
    """The whole policy file."""

    read_later: ClassVar = frozenset({"attributes"})

    table: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=100)]
    attributes: dict[str, Annotated[IntSection | FloatSection | CategorySection, Field(discriminator="type")]]
    sensitive: SensitiveSection
    privacy: PrivacySection
    scale: ScaleSection = ScaleSection()
    release: ReleaseSection = ReleaseSection()
    snapshot: SnapshotSection | None = None
