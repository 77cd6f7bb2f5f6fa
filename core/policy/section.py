"""How a section of the policy file is read: every mistake at once, in words for its author.

A section is a pydantic model that checks one value at a time (types, ranges); what concerns two values at once is in
`policy.py`. In a model None means "left out"; in a file null is always a mistake.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from shoal.core.errors import Mistake

Path = tuple[str | int, ...]

LARGEST_COUNT = 1_000_000_000
Count = Annotated[int, Field(ge=1, le=LARGEST_COUNT)]

EMPTY = "is empty; leave it out or give it a value"
_MOST_COMPARED = 100_000  # characters of the word times choices

QUOTE_IT = "must be text; if it is meant as text, write it in quotes"


class Section(BaseModel):
    """A mapping of the policy file. Strict: no text for numbers, no true for 1, and no unknown key."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, allow_inf_nan=False)

    read_later: ClassVar[frozenset[str]] = frozenset()  # fields whose model depends on what is in them


def read_section(
    model: type[Section], raw: object, path: Path, mistakes: list[Mistake], missing: str = "is missing"
) -> dict[str, Any]:
    """The fields of a section without a mistake, with defaults for those left out. Adds the mistakes to `mistakes`.

    Sections inside it are read the same way, so that one mistake hides no other. Fields to be read later stay as they
    are. `missing` is the message for a required field that was left out.
    """
    if not isinstance(raw, dict):
        mistakes.append(Mistake(path, EMPTY if raw is None else "must be a mapping of keys to values"))
        return {}
    fields = model.model_fields
    found: dict[str, Any] = {}
    for key, value in raw.items():
        if key not in fields:
            mistakes.append(unknown_key(path, key, fields))
            continue
        kind = _section_in(fields[key].annotation)
        if value is None:
            mistakes.append(Mistake((*path, key), EMPTY))
        elif key in model.read_later:
            found[key] = value
        elif kind is not None:
            found[key] = read_section(kind, value, (*path, key), mistakes)
        else:
            doubled = list(_doubled(value, (*path, key)))
            mistakes.extend(doubled)
            try:
                checked = _adapter(model, key).validate_python(value)
            except ValidationError as error:
                mistakes.extend(_explain(details, (*path, key)) for details in error.errors(include_url=False))
            else:
                if not doubled:
                    found[key] = checked
    for name, left_out in fields.items():
        if name in raw:
            continue
        if left_out.is_required():
            mistakes.append(Mistake((*path, name), missing))
        else:
            found[name] = dict(left_out.default) if isinstance(left_out.default, Section) else left_out.default
    return found


def read_one_of(
    kinds: Mapping[str, type[Section]],
    named_by: str,
    noun: str,
    raw: dict[Any, Any],
    path: Path,
    mistakes: list[Mistake],
) -> tuple[str, dict[str, Any]] | None:
    """The kind that a section names in its key `named_by`, and its fields; None if there is no such kind.

    A key of another kind is no misspelling, so the mistake says whose it is: "is for category attributes, not for int".
    """
    kind = raw.get(named_by)
    if not isinstance(kind, str) or kind not in kinds:
        known = ", ".join(kinds)
        wrong = f"is missing; it must be one of {known}"
        if named_by in raw:
            wrong = f"must be one of {known}{did_you_mean(kind, kinds)}"
        mistakes.append(Mistake((*path, named_by), wrong))
        keys = dict.fromkeys(key for section in kinds.values() for key in section.model_fields)
        mistakes.extend(unknown_key(path, key, keys) for key in raw if key not in keys)
        return None
    for key in raw:
        owners = [other for other, section in kinds.items() if key in section.model_fields]
        if owners and kind not in owners:
            wrong = f"is for {' and '.join(owners)}{noun}, not for {kind}"
            mistakes.append(Mistake((*path, key), wrong, at_key=True))
            raw = {other: value for other, value in raw.items() if other != key}
    return kind, read_section(kinds[kind], raw, path, mistakes, missing=f"is missing; {kind} needs it")


def _section_in(annotation: Any) -> type[Section] | None:
    """The section that a field holds, or may hold; None for a field of another kind."""
    kinds = [kind for kind in (get_args(annotation) or (annotation,)) if isinstance(kind, type)]
    return next((kind for kind in kinds if issubclass(kind, Section)), None)


@cache
def _adapter(model: type[Section], field: str) -> TypeAdapter[Any]:
    return TypeAdapter(model.model_fields[field].rebuild_annotation(), config=model.model_config)


def _doubled(value: object, path: Path) -> Iterator[Mistake]:
    """A mistake for each label that a list has twice; 7 and "7" are one label."""
    seen: set[str] = set()
    for at, label in enumerate(value if isinstance(value, list) else ()):
        if isinstance(label, str) or type(label) is int:
            if str(label) in seen:
                yield Mistake((*path, at), f"{str(label)!r} is there twice")
            seen.add(str(label))


def unknown_key(path: Path, key: object, known: Iterable[str]) -> Mistake:
    """The mistake of an unknown key, with a guess at the one that was meant."""
    if not isinstance(key, str):
        return Mistake(path, "has a key that is not text; write it in quotes")
    choices = list(known)
    hint = did_you_mean(key, choices, otherwise=f"; known are: {', '.join(choices)}")
    return Mistake((*path, key), f"is not a known key{hint}", at_key=True)


def did_you_mean(word: object, known: Iterable[str], otherwise: str = "") -> str:
    """`; did you mean k?` if a known word is close to this one. Among very many words nobody looks."""
    choices = list(known)
    can_compare = isinstance(word, str) and len(word) * len(choices) <= _MOST_COMPARED
    close = difflib.get_close_matches(word, choices, n=1) if isinstance(word, str) and can_compare else ()
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
        case "less_than":
            message = f"must be less than {_plain(limits['lt'])}"
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
