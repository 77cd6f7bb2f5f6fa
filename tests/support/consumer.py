"""A program that reads a releases topic by docs/contract.md alone, and the records of a topic for it to read."""

import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import shoal
from shoal.streams.files.release_folder import read_releases
from shoal.streams.kafka.manifest import Origin, manifest_headers, write_origin
from tests.support.root import ROOT

WARD = ROOT / "examples" / "ward"


class TopicRecord(NamedTuple):
    """One record of a releases topic."""

    key: bytes
    headers: tuple[tuple[str, bytes], ...]
    value: bytes


def topic_records(folder: Path, policy: str = "policy.yaml") -> list[TopicRecord]:
    """What a worker would write to the releases topic of examples/ward; `folder` is for its releases."""
    shoal.replay(shoal.load_policy(WARD / policy), WARD / "events.jsonl", folder, key="another secret")
    found: list[TopicRecord] = []
    for files in read_releases(folder):
        key = f"ward/{files.number}".encode()
        headers = manifest_headers("ward", files.number, write_origin(Origin([0], files.number, "2024-03-04")))
        found += [TopicRecord(key, (), record) for record in files.records]
        found.append(TopicRecord(key, tuple(headers), files.manifest))
    return found


def consume(records: Iterable[TopicRecord]) -> dict[int, dict[str, int]]:
    """What a consumer does that knows nothing of Shoal's code: checks the chain, and counts values by release."""
    counts: dict[int, dict[str, int]] = {}
    previous, pending = None, []
    for record in records:
        if dict(record.headers).get("kind") != b"manifest":
            pending.append(record.value)
            continue
        manifest = json.loads(record.value)
        assert manifest["format"] == 1
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
