"""Releases topics as earlier versions wrote them, a record a line, and a program that was written for format 2.

`releases-1.jsonl` was read from the topic of a worker of engine 1.0, `releases-2.jsonl` from that of one of engine 2.0,
on a real Kafka and Redis; `shoal produce` of the same version had sent them the events of examples/ward.
`release-2.schema.json` is the schema of format 2 as it was then. They never change: what is published stays readable.
"""

import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent
SCHEMA_2: dict[str, Any] = json.loads((FOLDER / "release-2.schema.json").read_text(encoding="utf-8"))


class Recorded(NamedTuple):
    """One record of a releases topic."""

    key: bytes
    headers: tuple[tuple[str, bytes], ...]
    value: bytes


def read_recorded(version: int) -> list[Recorded]:
    """The records of a topic in that format."""
    lines = (FOLDER / f"releases-{version}.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        Recorded(
            one["key"].encode(),
            tuple((name, text.encode()) for name, text in one["headers"].items()),
            one["value"].encode(),
        )
        for one in map(json.loads, lines)
    ]


def consume_2(records: Iterable[Recorded]) -> dict[int, dict[str, int]]:
    """What a consumer of format 2 does that knows nothing of Shoal's code: checks the chain, and counts values.

    It looks at the fields that docs/contract.md had when it was written, and minds no other.
    """
    counts: dict[int, dict[str, int]] = {}
    previous, pending = None, []
    for record in records:
        if dict(record.headers).get("kind") != b"manifest":
            pending.append(record.value)
            continue
        manifest = json.loads(record.value)
        assert manifest["format"] == 2
        assert manifest["release"] == len(counts) + 1
        assert manifest["previous"] == previous
        assert manifest["content"] == sha256(b"".join(one + b"\n" for one in pending)).hexdigest()
        parsed = [json.loads(one) for one in pending]
        cells, groups = parsed[: manifest["cells"]], parsed[manifest["cells"] :]
        assert sum(cell["people"] for cell in cells) == manifest["people"]
        assert {name for group in groups for name in group["cells"]} <= {cell["cell"] for cell in cells}
        shown: dict[str, int] = {}
        for group in groups:
            for value, count in group["sensitive"].items():
                shown[value] = shown.get(value, 0) + count
        counts[manifest["release"]] = shown
        previous, pending = sha256(record.value).hexdigest(), []
    assert not pending
    return counts
