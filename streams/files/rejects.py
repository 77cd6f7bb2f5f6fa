"""Events that had no effect: where a replay lists them, and how many there are by reason and field."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from shoal.core.events.event import Reason, Reject
from shoal.core.events.fields import FIELDS

SHOWN = 8


def rejects_beside(out: Path) -> Path:
    """Where the rejects of a replay are unless its caller says otherwise: OUT holds only what may be published."""
    out = out.absolute()
    return out.with_name(f"{out.name}.rejects.jsonl")


class Rejected(NamedTuple):
    """Rejects with one reason, op and field. `line` and `file` are of the first."""

    reason: str
    op: str | None
    field: str | None
    events: int
    line: int
    file: str | None

    @property
    def place(self) -> str:
        return f"line {self.line:,}" + ("" if self.file is None else f" of {self.file}")

    @property
    def what(self) -> str:
        field = "" if self.field is None else f" ({self.field})"
        return f"{self.reason}{field}" + ("" if self.op is None else f" in {self.op}")

    def __str__(self) -> str:
        first = self.place if self.events == 1 else f"first on {self.place}"
        return f"{self.events:,} × {self.what}, {first}{self._hint}"

    @property
    def _hint(self) -> str:
        """What an event may have. Which other field it has is its sender's word, and never repeated."""
        if self.reason == Reason.UNKNOWN_FIELD and self.field is None and self.op in FIELDS:
            known = FIELDS[self.op]
            return f"; the fields of {self.op} are {', '.join(('op', *known.required, *known.optional))}"
        if self.reason == Reason.UNKNOWN_ATTRIBUTE:
            return "; qid has an attribute that the policy has not"
        return ""


class Tally:
    """Counts rejects."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str | None, str | None], Rejected] = {}

    def add(self, reject: Reject, line: int, file: str | None = None) -> None:
        self.count(str(reject.reason), reject.op, reject.field, line, file)

    def count(self, reason: str, op: str | None, field: str | None, line: int, file: str | None = None) -> None:
        """Counts a reject that is known by its words, as one read back from a topic is."""
        key = reason, op, field
        known = self._found.get(key)
        if known is None:
            self._found[key] = Rejected(*key, 1, line, file)
        else:
            self._found[key] = known._replace(events=known.events + 1)

    @property
    def total(self) -> int:
        return sum(one.events for one in self._found.values())

    def __iter__(self) -> Iterator[Rejected]:
        """The most frequent first."""
        return iter(sorted(self._found.values(), key=lambda one: (-one.events, one.line)))

    def as_json(self) -> list[dict[str, Any]]:
        return [one._asdict() for one in self]

    def sentences(self, shown: int = SHOWN) -> Iterator[str]:
        """A line for each kind of reject, the most frequent first, and how many more there are."""
        kinds = [*self]
        yield from map(str, kinds[:shown])
        if len(kinds) > shown:
            yield f"{sum(one.events for one in kinds[shown:]):,} more, for {len(kinds) - shown:,} other reasons"
