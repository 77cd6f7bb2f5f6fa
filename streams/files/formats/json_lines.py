"""Events as lines of JSON, one object each: the format that every command reads unless told otherwise."""

from collections.abc import Iterator

from shoal.core.events.event import Reject, parse_json
from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.files.formats.format import Blocks, EventReader, FormatChoice, Line


def reader(_policy: Policy, choice: FormatChoice) -> "JsonLines":
    """The reader of JSON lines. Raises `InputError` if columns are named, which such a file does not have."""
    if choice.mapping is not None or choice.columns:
        raise InputError("a mapping, --register and the names of columns are for CSV; say --csv if the file is CSV.")
    return JsonLines()


class JsonLines(EventReader):
    """Reads JSON lines. Blank lines do not count."""

    is_json = True

    def read(self, blocks: Blocks) -> Iterator[Line]:
        """Yields every line that is not blank; one that is no JSON object is refused."""
        number = 0
        for block in blocks:
            for raw in block:
                number += 1
                event = parse_json(raw)
                if isinstance(event, dict):
                    yield Line(number, event, raw=raw)
                elif raw.strip():
                    why = str(event.reason) if isinstance(event, Reject) else "not-an-object"
                    yield Line(number, None, f"it is {why}")

    def as_json(self, blocks: Blocks) -> Blocks:
        """The lines as they are."""
        return blocks
