"""Somebody whose id and quasi-identifiers are found wherever they are written, and where to look for them."""

import base64
import hashlib
import struct
from typing import Any, Final

from redis import Redis

from tests.support.services.table import POLICY, Table, insert

ID: Final = "canary-4711-ümlaut"
WEIGHT, OTHER_WEIGHT = 61.73291845, 83.91827364
ATTRIBUTES: Final = {**POLICY["attributes"], "weight": {"type": "float", "min": 0, "max": 300}}
_HASHES = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha3_256", "blake2b", "blake2s")


def canary() -> dict[str, Any]:
    """The event that brings them."""
    return {"op": "insert", "id": ID, "sensitive": ["lupus"], "qid": {**insert(7)["qid"], "weight": WEIGHT}}


def crowd(count: int) -> list[dict[str, Any]]:
    """The events that bring everybody else."""
    people = [insert(number) for number in range(count)]
    return [{**event, "qid": {**event["qid"], "weight": 70.5}} for event in people]


def names() -> dict[str, bytes]:
    """The id as it is and under plain hashes, whole and cut short."""
    found = {"id": ID.encode(), "escaped id": ID.encode("unicode_escape"), "part of the id": b"canary-4711"}
    for name in _HASHES:
        for text in (ID, f"{ID}\n"):
            digest = hashlib.new(name, text.encode()).digest()
            found |= {f"{name} {len(text)}": digest[:8], f"{name} {len(text)} in hex": digest.hex()[:12].encode()}
            found[f"{name} {len(text)} in base64"] = base64.b64encode(digest)[:12]
    for size in (7, 8, 12, 15, 16, 20, 32):
        found[f"blake2b of {size}"] = hashlib.blake2b(ID.encode(), digest_size=size).digest()[:7]
    return found


def identifiers() -> dict[str, bytes]:
    """The quasi-identifiers as msgpack has them, and as a text has them."""
    weights = (WEIGHT, OTHER_WEIGHT)
    packed = {f"{weight} packed": struct.pack(">d", weight) for weight in weights}
    return packed | {str(weight): str(weight).encode() for weight in weights}


def found_in(content: bytes, wanted: dict[str, bytes]) -> set[str]:
    return {name for name, written in wanted.items() if written in content}


def everything_in(client: "Redis", table: Table) -> bytes:
    """Every name, field and value of the table."""
    found: list[bytes] = []
    read: dict[bytes, Any] = {
        b"hash": lambda key: [part for pair in client.hgetall(key).items() for part in pair],
        b"list": lambda key: client.lrange(key, 0, -1),
        b"set": client.smembers,
        b"string": lambda key: [client.get(key)],
    }
    for key in table.keys:
        kind: Any = client.type(key)
        found += [key, *read[kind](key)]
    return b"\0".join(found)
