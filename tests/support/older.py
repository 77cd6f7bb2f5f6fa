"""Tables as older versions of Shoal left them: tests/golden/older has one file for each, written by that version."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from tests.support.root import ROOT

FOLDER: Final = ROOT / "tests" / "golden" / "older"
NAMES: Final = tuple(sorted(path.stem for path in FOLDER.glob("*.older")))


@dataclass(frozen=True)
class Older:
    """A table of two partitions after three releases, with a window open; and a replay of the same events."""

    name: str
    policy: bytes
    state_key: str
    partitions: int
    redis: Sequence[tuple[str, str, Any]]
    topics: dict[str, Any]
    replay: dict[str, Any]
    snapshot: bytes = b""
    """Of the last release; nothing if the version had none."""


def read_older(name: str) -> Older:
    found = msgpack.unpackb(zlib.decompress((FOLDER / f"{name}.older").read_bytes()))
    return Older(f"older-{name.replace('.', '-')}", **found)
