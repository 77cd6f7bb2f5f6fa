"""CloudEvents 1.0 in binary mode: headers by which tools route and count records without knowing Shoal.

Two kinds of records are events in this sense. The manifest, the last record of a release, says that a release was
published; the cells and groups before it, in the same transaction, are what was published. A dead letter says that a
record was rejected, and has that record's own bytes and `content-type`.

Every header is made of what never changes: names, numbers, and the time that a trigger named. So `ce_id` is the same
when a worker sends a record again, and after a rebuild.
"""

import re
from typing import Final

from shoal.core.published.manifest import FORMAT

SPECVERSION: Final = "1.0"
RELEASE_TYPE: Final = f"shoal.release.v{FORMAT}"
DEAD_LETTER_TYPE: Final = "shoal.dead-letter.v1"

# RFC 3339; Shoal also takes times without an offset, or without a time of day.
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def release_event(table: str, number: int, published_at: str | None) -> list[tuple[str, bytes]]:
    """The headers of a manifest's record."""
    headers = _event(RELEASE_TYPE, f"/shoal/{table}", f"{table}/{number}")
    if published_at is not None and _TIME.fullmatch(published_at):
        headers.append(("ce_time", published_at.encode()))
    return [*headers, ("content-type", b"application/json")]


def dead_letter_event(table: str, topic: str, partition: int, offset: int) -> list[tuple[str, bytes]]:
    """The headers of a dead letter, after the original's own."""
    return _event(DEAD_LETTER_TYPE, f"/shoal/{table}", f"{topic}/{partition}/{offset}")


def _event(kind: str, source: str, name: str) -> list[tuple[str, bytes]]:
    said = {"ce_specversion": SPECVERSION, "ce_type": kind, "ce_source": source, "ce_id": name}
    return [(header, text.encode()) for header, text in said.items()]
