"""Events that had no effect: where a replay lists them, and how many there are by reason and field."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from shoal.core.events.event import Reject

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

    def __str__(self) -> str:
        what = " ".join(part for part in (self.reason, self.field and f"({self.field})") if part)
        ops = "" if self.op is None else f" in {self.op}"
        first = self.place if self.events == 1 else f"first on {self.place}"
        return f"{self.events:,} × {what}{ops}, {first}"


class Tally:
    """Counts rejects."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str | None, str | None], Rejected] = {}

    def add(self, reject: Reject, line: int, file: str | None = None) -> None:
        key = str(reject.reason), reject.op, reject.field
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
