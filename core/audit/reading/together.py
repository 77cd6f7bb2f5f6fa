"""Releases that hold only what changed, as an outsider puts them together (docs/contract.md, "Deltas and shards").

What comes out is the same release written in full, and held to everything that full ones are. Beside it stands what
only these releases can get wrong: a part that is missing, an id that is gone and was never there, a record that is not
new, a digest that the records do not have. It shares no code with `core/published/deltas.py`, by which consumers fold.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, NamedTuple

from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.strictjson import parse
from shoal.core.policy.policy import Policy

PARTS = "a manifest does not say what its shards hold"
COUNTS = "a shard's part has another number of records than its manifest says"
NO_PART = "the part of a shard is missing"
NO_BASE = "a release holds only what changed since one that is not there"
NEVER_THERE = "an id is gone that was not there"
NOT_NEW = "a release that holds what changed repeats a record that did not"
DIGEST = "a shard's records, put together, are not those that its digest names"
FULL = "a shard is in full where the contract says otherwise, or the other way round"
STRAY = "a record is of no shard that the manifest names"

_NAME: Final = re.compile(r"(?:s(0|[1-9][0-9]{0,17})-)?([cg])(0|[1-9][0-9]{0,17})", re.ASCII)
_FILES: Final = ("cells", "groups", "gone")


class Stored(NamedTuple):
    """One release as it lies in a folder: the number it is under, and the bytes of its files; a plain one has no
    `gone`.
    """

    number: int
    cells: bytes
    groups: bytes
    manifest: bytes
    gone: bytes = b""


class Name(NamedTuple):
    """The name of a cell or a group: they stand by shard, cells before groups, by number."""

    shard: int
    kind: str
    number: int


@dataclass
class _Part:
    """What one release says of one shard."""

    written: dict[Name, bytes] = field(default_factory=dict)
    gone: list[Name] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


class Together:
    """Follows the releases of one table, and knows what stands after each of them."""

    def __init__(self, policy: Policy, findings: Findings) -> None:
        self._policy, self._findings = policy, findings
        self._table = json.dumps(policy.table, ensure_ascii=False).encode()
        self._standing: dict[int, dict[Name, bytes]] = {}  # by shard; records without `release`
        self._number, self._engine = 0, ""
        self._plain: Stored | None = None

    def take(self, stored: Stored) -> tuple[Stored, str]:
        """The next release with all of its records, and their digest as `content` names it."""
        told = _told(stored.manifest)
        if "shards" not in told:
            self._number, self._engine, self._plain = stored.number, str(told.get("engine")), stored
            return stored, sha256(stored.cells + stored.groups).hexdigest()
        if not _are_parts(told["shards"]) or type(told.get("full_every")) is not int or told["full_every"] < 1:
            self._findings.say(Promise.CONTRACT, PARTS, stored.number)
            self._standing = {}
            return stored, ""
        if self._plain is not None:
            plain, _ = self._read(self._plain)
            self._standing, self._plain = {0: {} if 0 not in plain else plain[0].written}, None
        if stored.number != self._number + 1:
            self._standing = {}
        parts, others = self._read(stored)
        is_first = self._engine != told.get("engine")
        after = {
            part["shard"]: self._fold(stored.number, told["full_every"], part, parts, is_first)
            for part in told["shards"]
        }
        stray = sum(len(part.counts) for shard, part in parts.items() if shard not in after)
        self._findings.say(Promise.CONTRACT, STRAY, stored.number, times=stray)
        self._standing, self._number, self._engine = after, stored.number, str(told.get("engine"))
        return self._whole(stored, others), sha256(b"".join(map(self._digest, sorted(after)))).hexdigest()

    def _fold(
        self, number: int, full_every: int, told: Mapping[str, Any], parts: Mapping[int, _Part], is_first: bool
    ) -> dict[Name, bytes]:
        """What stands of a shard after its part of a release."""
        shard, say, place = told["shard"], self._findings.say, f"s{told['shard']}"
        part, before = parts.get(shard, _Part()), self._standing.get(shard)
        if any(part.counts[name] != told[name] for name in _FILES):
            say(Promise.G6, COUNTS if part.counts else NO_PART, number, place)
        must_be_full = is_first or (number + shard) % full_every == 0 or (before is None and number == self._number + 1)
        if told["full"] != must_be_full and (told["full"] or before is not None):
            say(Promise.CONTRACT, FULL, number, place)
        if told["full"]:
            say(Promise.G6, NEVER_THERE, number, place, len(part.gone))
            after = part.written
        elif before is None:
            say(Promise.G6, NO_BASE, number, place)
            return {}
        else:
            say(Promise.G6, NEVER_THERE, number, place, sum(name not in before for name in part.gone))
            repeated = sum(before.get(name) == record for name, record in part.written.items())
            say(Promise.CONTRACT, NOT_NEW, number, place, repeated)
            after = {name: record for name, record in before.items() if name not in part.gone} | part.written
        is_right = _digest_of(after) == told["digest"]
        say(Promise.G6, DIGEST, number, place, int(not is_right))
        return after

    def _digest(self, shard: int) -> bytes:
        return bytes.fromhex(_digest_of(self._standing[shard]))

    def _read(self, stored: Stored) -> tuple[dict[int, _Part], dict[str, list[bytes]]]:
        """The records of a release by shard, and, by file, those that cannot be read, which are passed on."""
        head = b'{"table":%b,"release":%d,' % (self._table, stored.number)
        bare = b'{"table":%b,' % self._table
        parts: dict[int, _Part] = {}
        others: dict[str, list[bytes]] = {file: [] for file in _FILES}
        for file in _FILES:
            for line in getattr(stored, file).split(b"\n")[:-1]:
                names = list(_names(line, file)) if line.startswith(head) else []
                if not names:
                    others[file].append(line)
                    continue
                part = parts.setdefault(names[0].shard, _Part())
                part.counts[file] += 1
                if file == "gone":
                    part.gone += names
                elif names[0] in part.written:
                    others[file].append(line)  # stands twice
                else:
                    part.written[names[0]] = bare + line[len(head) :]
        return parts, others

    def _whole(self, stored: Stored, others: Mapping[str, list[bytes]]) -> Stored:
        """The release in full: everything that stands, and what could not be read of this one."""
        head, bare = b'{"table":%b,"release":%d,' % (self._table, stored.number), len(b'{"table":%b,' % self._table)
        standing = [self._standing[shard] for shard in sorted(self._standing)]
        files = {
            file: [head + here[name][bare:] + b"\n" for here in standing for name in sorted(here) if name.kind == kind]
            for file, kind in (("cells", "c"), ("groups", "g"))
        }
        for file, lines in files.items():
            lines += [line + b"\n" for line in others[file]]
        unread = b"".join(line + b"\n" for line in others["gone"])
        return stored._replace(cells=b"".join(files["cells"]), groups=b"".join(files["groups"]), gone=unread)


def shard_of(name: str) -> int:
    """The shard that the name of a cell or a group begins with, 0 in a table that has one; -1 for another name."""
    found = _NAME.fullmatch(name)
    return -1 if found is None else int(found[1] or 0)


def _told(manifest: bytes) -> dict[str, Any]:
    """What a manifest says; one that cannot be read says nothing, and is found out elsewhere."""
    try:
        found = parse(manifest)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _are_parts(shards: object) -> bool:
    return isinstance(shards, list) and all(
        isinstance(part, dict)
        and part.get("shard") == turn
        and isinstance(part.get("full"), bool)
        and all(type(part.get(name)) is int and part[name] >= 0 for name in (*_FILES, "people"))
        and isinstance(part.get("digest"), str)
        and "region" in part
        for turn, part in enumerate(shards)
    )


def _names(line: bytes, file: str) -> Iterator[Name]:
    """The name of a record, or those that one says are gone, which are all of one shard; none if it cannot be read."""
    try:
        raw: Any = parse(line)
        found = [*raw["gone"]] if file == "gone" else [raw["cell" if file == "cells" else "group"]]
        matches = [_NAME.fullmatch(name) for name in found]
    except (ValueError, RecursionError, TypeError, KeyError):
        return
    names = [Name(int(match[1] or 0), match[2], int(match[3])) for match in matches if match is not None]
    is_right = len(names) == len(found) and len({name.shard for name in names}) == 1
    if is_right and (file == "gone" or {name.kind for name in names} == {file[0]}):
        yield from names


def _digest_of(records: Mapping[Name, bytes]) -> str:
    """A shard's digest: over the sha256 of each of its records, cells before groups, by number."""
    return sha256(b"".join(sha256(records[name]).digest() for name in sorted(records))).hexdigest()
