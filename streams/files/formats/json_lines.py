"""Events as lines of JSON, one object each: the format that every command reads unless told otherwise."""

from collections.abc import Iterator, Sequence

from shoal.core.events.event import Reason, Reject, parse_json
from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.files.formats.format import Blocks, EventReader, FormatChoice, Line, NamedBlocks


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
                    reject = event if isinstance(event, Reject) else Reject(Reason.NOT_AN_OBJECT)
                    yield Line(number, None, f"it is {reject.reason}", reject=reject)

    def as_json(self, files: Sequence[NamedBlocks]) -> Blocks:
        """The lines of one file as they are."""
        return files[0].blocks if len(files) == 1 else super().as_json(files)
