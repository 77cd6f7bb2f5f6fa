"""The policy file's sections as models, and how a section is read: every mistake at once, in words for its author.

The models check one value at a time (types, ranges); what concerns two values at once is in `policy.py`. In a model
None means "left out"; in a file null is always a mistake.
"""

import difflib
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError

from shoal.core.errors import Mistake
from shoal.core.policy.hierarchy import ROOT, wrong_label

Path = tuple[str | int, ...]

# Larger whole numbers are not exact as floats, which readers of JSON and the tree's medians rely on.
LARGEST_INT = 2**53
LARGEST_COUNT = 1_000_000_000

EMPTY = "is empty; leave it out or give it a value"
QUOTE_IT = "must be text; if it is meant as text, write it in quotes"


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
Count = Annotated[int, Field(ge=1, le=LARGEST_COUNT)]
CountOrZero = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]
Participation = Annotated[
    int | Literal["all"],
    BeforeValidator(_read_participation),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"const": "all"}]}),
]
Whole = Annotated[int, Field(ge=-LARGEST_INT, le=LARGEST_INT)]


class Section(BaseModel):
    """A mapping of the policy. Strict: no text for numbers, no true for 1, and no key that is not known."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True, allow_inf_nan=False)


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
    open: list[Leaf] = []


class StrategySection(Section):
    """How the budget is spent."""

    name: Literal["adaptive", "constant-ratio", "geometric"]
    releases: Annotated[Count | None, Field(description="10 unless given; not for geometric")] = None
    alpha: Annotated[float | None, Field(gt=1, le=LARGEST_COUNT, description="required by geometric, only for it")] = (
        None
    )


class PrivacySection(Section):
    """The promises."""

    k: Count
    l: Annotated[float, Field(gt=1, le=LARGEST_COUNT)]
    strategy: StrategySection = StrategySection(name="adaptive", releases=10)
    headroom: CountOrZero | None = None
    participation: Participation = 0
    sampling: Annotated[float, Field(gt=0, le=1, description="the share of people who may be published")] = 1.0
    overlap: Count = 2
    search: Count = 32


class ReleaseSection(Section):
    """What makes a release, other than a request for one."""

    every_events: Count | None = None
    every_seconds: Annotated[float | None, Field(gt=0, le=LARGEST_COUNT)] = None
    at: Text | None = None
    timezone: Annotated[Text | None, Field(description="of `at`; UTC unless given")] = None
    case_ids: bool = False


class PolicyDocument(Section):
    """The whole policy file."""

    table: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=100)]
    attributes: dict[str, Annotated[IntSection | FloatSection | CategorySection, Field(discriminator="type")]]
    sensitive: SensitiveSection
    privacy: PrivacySection
    release: ReleaseSection = ReleaseSection()


def read_section(model: type[Section], raw: object, path: Path, mistakes: list[Mistake]) -> dict[str, Any]:
    """The fields of a section that are right, with defaults for those left out; what is wrong goes to `mistakes`.

    Sections inside it are read the same way, so that one mistake hides no other. A dict of sections is left as it is.
    """
    if not isinstance(raw, dict):
        mistakes.append(Mistake(path, EMPTY if raw is None else "must be a mapping of keys to values"))
        return {}
    fields = model.model_fields
    found: dict[str, Any] = {}
    checked = model.model_construct()
    for key, value in raw.items():
        if key not in fields:
            mistakes.append(unknown_key(path, key, fields))
            continue
        kind = fields[key].annotation
        if value is None:
            mistakes.append(Mistake((*path, key), EMPTY))
        elif isinstance(kind, type) and issubclass(kind, Section):
            found[key] = read_section(kind, value, (*path, key), mistakes)
        elif key == "attributes":
            found[key] = value
        else:
            doubled = list(_doubled(value, (*path, key)))
            mistakes.extend(doubled)
            try:
                model.__pydantic_validator__.validate_assignment(checked, key, value)
            except ValidationError as error:
                mistakes.extend(_explain(details, path) for details in error.errors(include_url=False))
            else:
                if not doubled:
                    found[key] = getattr(checked, key)
    for name, field in fields.items():
        if name in raw:
            continue
        if field.is_required():
            mistakes.append(Mistake((*path, name), "is missing"))
        else:
            found[name] = dict(field.default) if isinstance(field.default, Section) else field.default
    return found


def _doubled(value: object, path: Path) -> Iterator[Mistake]:
    """Labels that a list has twice; 7 and "7" are one label."""
    seen: set[str] = set()
    for at, label in enumerate(value if isinstance(value, list) else ()):
        if isinstance(label, str) or type(label) is int:
            if str(label) in seen:
                yield Mistake((*path, at), f"{str(label)!r} is there twice")
            seen.add(str(label))


def unknown_key(path: Path, key: object, known: Iterable[str]) -> Mistake:
    """A key nobody asked for, with a guess at what was meant."""
    if not isinstance(key, str):
        return Mistake(path, "has a key that is not text; write it in quotes")
    choices = list(known)
    hint = did_you_mean(key, choices, otherwise=f"; known are: {', '.join(choices)}")
    return Mistake((*path, key), f"is not a known key{hint}", at_key=True)


def did_you_mean(word: object, known: Iterable[str], otherwise: str = "") -> str:
    """`; did you mean k?` if something known is close to a word."""
    close = difflib.get_close_matches(word, list(known), n=1) if isinstance(word, str) else ()
    return f"; did you mean {close[0]}?" if close else otherwise


def _explain(details: ErrorDetails, path: Path) -> Mistake:
    """One of pydantic's errors in the words of this project."""
    limits = details.get("ctx", {})
    match details["type"]:
        case "text" | "leaf" | "participation":
            message = details["msg"]
        case "int_type" | "int_from_float" | "int_parsing":
            message = "must be a whole number, written without a point or exponent"
        case "float_type":
            message = "must be a number"
        case "finite_number":
            message = "must be a finite number"
        case "bool_type":
            message = "must be true or false"
        case "string_type":
            message = QUOTE_IT
        case "list_type":
            message = "must be a list, as in [a, b]"
        case "too_short":
            message = "must not be empty"
        case "greater_than":
            message = f"must be more than {_plain(limits['gt'])}"
        case "greater_than_equal":
            message = f"must be at least {_plain(limits['ge'])}"
        case "less_than_equal":
            message = f"must be at most {_plain(limits['le'])}"
        case "string_too_long":
            message = f"must have at most {limits['max_length']} characters"
        case "string_pattern_mismatch":
            message = "must begin with a-z or 0-9 and hold only a-z, 0-9, dots, underscores and hyphens"
        case "literal_error":
            known = [word.strip("'") for word in limits["expected"].replace(" or ", ", ").split(", ")]
            message = f"must be one of {', '.join(known)}{did_you_mean(details['input'], known)}"
        case _:
            message = details["msg"]
    return Mistake((*path, *details["loc"]), message)


def _plain(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)
