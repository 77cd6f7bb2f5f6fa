"""Releases put together: all records of a table as they stand after a release, from full releases and deltas.

(docs/contract.md, "Deltas and shards".) A full part has all records of its shard. A delta has those that are different
now, `release` aside, and the ids that are gone. So the records after a release are those before it, with the changes;
`release` is then the number of the one they stand in.

Layout. A shard is two mappings, of cells and of groups, from a record's number to its bytes behind `release` and their
sha256. Each part names the digest over all of its shard's sha256s, by which every change, and every change that is
missing, is found. Costs one hash per record that is given, and a step per record that stands.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from shoal.core.errors import CoreError

HASHED_AT_ONCE: Final = 1000  # records: one buffer for all would be as large as the release
_COUNTED: Final = ("cells", "groups", "gone")
_ID: Final = re.compile(r"(?:s(0|[1-9][0-9]{0,17})-)?([cg])(0|[1-9][0-9]{0,17})", re.ASCII)
_NAMED: Final = re.compile(rb'"(cell|group)":"(?:s(0|[1-9][0-9]{0,17})-)?([cg])(0|[1-9][0-9]{0,17})",')
_KINDS: Final = {b"cell": b"c", b"group": b"g"}


class FoldError(CoreError):
    """Releases cannot be put together; says why in one sentence without its full stop."""


class Written(NamedTuple):
    """How many records of a shard are written in a release."""

    cells: int
    groups: int
    gone: int

    @property
    def total(self) -> int:
        return sum(self)


class Whole(NamedTuple):
    """All records of a table as they stand after a release, in the order of a full one."""

    cells: tuple[bytes, ...]
    groups: tuple[bytes, ...]

    @property
    def records(self) -> tuple[bytes, ...]:
        return self.cells + self.groups


class _Shard:
    """The records of a shard: (bytes behind `release`, sha256) of cells and of groups, by number."""

    def __init__(self) -> None:
        self.kinds: dict[str, dict[int, tuple[bytes, bytes]]] = {"c": {}, "g": {}}

    def copy(self) -> "_Shard":
        twin = _Shard()
        twin.kinds = {kind: dict(found) for kind, found in self.kinds.items()}
        return twin

    def in_order(self, kind: str) -> Iterator[tuple[bytes, bytes]]:
        found = self.kinds[kind]
        return (found[number] for number in sorted(found))

    def digest(self) -> bytes:
        return hashlib.sha256(b"".join([digest for kind in "cg" for _, digest in self.in_order(kind)])).digest()


class _Change(NamedTuple):
    """What a release says of a shard: records by kind and number, and what is gone."""

    records: list[tuple[str, int, bytes]]
    gone: list[tuple[str, int]]
    counts: Counter[str]


class Fold:
    """Puts the releases of a table together, one after the other, the first or a later one first.

    `number` is the last release that was taken. Begun in the middle, it has no records of a shard until one is full.
    """

    def __init__(self, table: str) -> None:
        self._table = table
        self.number = 0
        self._shards: dict[int, _Shard] = {}
        self._missing: set[int] = set()
        self._plain: Whole | None = None  # instead of shards, where a release is plain

    @property
    def is_whole(self) -> bool:
        """Whether all records are known."""
        return not self._missing

    def take(self, manifest: Mapping[str, Any], records: Sequence[bytes]) -> None:
        """Take the next release; the records of a plain one in their order, those of parts in any. Raises FoldError."""
        number = manifest["release"]
        if self.number and number != self.number + 1:
            raise FoldError(f"release {self.number + 1} is missing")
        if "shards" not in manifest:
            self._take_plain(number, manifest, records)
        else:
            self._take_parts(number, manifest, records)
        self.number = number

    def whole(self) -> Whole:
        """All records as they stand now. Raises FoldError if some are not known."""
        if self._missing:
            raise FoldError(
                f"release {self.number} has only what changed in shard {min(self._missing)}; begin with a release in "
                "which that shard is in full"
            )
        if self._plain is not None:
            return self._plain
        head = _head(self._table, self.number)
        cells, groups = (
            tuple([head + rest for shard in sorted(self._shards) for rest, _ in self._shards[shard].in_order(kind)])
            for kind in "cg"
        )
        return Whole(cells, groups)

    def _take_plain(self, number: int, manifest: Mapping[str, Any], records: Sequence[bytes]) -> None:
        if content_digest(records) != manifest.get("content"):
            raise FoldError(f"release {number} has other records than its manifest says")
        cells, groups = manifest.get("cells"), manifest.get("groups")
        if not (type(cells) is int and type(groups) is int and cells + groups == len(records)):
            raise FoldError(f"release {number} has another number of cells and groups than its manifest says")
        self._shards, self._missing = {}, set()
        self._plain = Whole(tuple(records[:cells]), tuple(records[cells:]))

    def _take_parts(self, number: int, manifest: Mapping[str, Any], records: Sequence[bytes]) -> None:
        parts = parts_of(manifest)
        if self._plain is not None:
            whole = self._sort(self.number, self._plain.records, 1).get(0, _Change([], [], Counter()))
            self._shards = {0: self._apply(self.number, _Shard(), whole)}
        changes = self._sort(number, records, len(parts))
        shards: dict[int, _Shard] = {}
        missing: set[int] = set()
        for shard, (part, written) in enumerate(zip(manifest["shards"], parts, strict=True)):
            change = changes.get(shard, _Change([], [], Counter()))
            found = Written(*(change.counts[name] for name in _COUNTED))
            if found != written:
                wrong = "does not have the part" if not found.total else "has other records than its manifest says"
                raise FoldError(f"release {number} {wrong} of shard {shard}")
            base = self._shards.get(shard)
            if not part["full"] and base is None:
                missing.add(shard)
                continue
            shards[shard] = folded = self._apply(number, base if base and not part["full"] else _Shard(), change)
            if folded.digest().hex() != part["digest"]:
                raise FoldError(
                    f"the records of shard {shard} after release {number} are not those that its manifest names: "
                    "one of this release, or of one before it, was changed or left out"
                )
        digests = b"".join([bytes.fromhex(part["digest"]) for part in manifest["shards"]])
        if hashlib.sha256(digests).hexdigest() != manifest.get("content"):
            raise FoldError(f"release {number} names another content than the digests of its shards make")
        self._shards, self._missing, self._plain = shards, missing, None

    def _apply(self, number: int, base: _Shard, change: _Change) -> _Shard:
        shard, bare = base.copy(), _head(self._table, None)
        for kind, gone in change.gone:
            if shard.kinds[kind].pop(gone, None) is None:
                raise FoldError(f"release {number} names as gone what was not there before")
        for kind, key, rest in change.records:
            shard.kinds[kind][key] = rest, hashlib.sha256(bare + rest).digest()
        return shard

    def _sort(self, number: int, records: Iterable[bytes], count: int) -> dict[int, _Change]:
        """Records by shard. Raises FoldError for one that is not of this release."""
        head, found = _head(self._table, number), dict[int, _Change]()
        for record in records:
            rest = record[len(head) :] if record.startswith(head) else b""
            named = _NAMED.match(rest)
            if named is not None and _KINDS[named[1]] == named[3]:
                shard, kind, key = int(named[2] or 0), named[3].decode(), int(named[4])
                change = found.setdefault(shard, _Change([], [], Counter()))
                change.records.append((kind, key, rest))
                change.counts["cells" if kind == "c" else "groups"] += 1
            else:
                shard, ids = _gone(rest, number)
                change = found.setdefault(shard, _Change([], [], Counter()))
                change.gone.extend(ids)
                change.counts["gone"] += 1
        if any(shard >= count for shard in found):
            raise FoldError(f"release {number} has a record of a shard that its manifest does not name")
        return found


def parts_of(manifest: Mapping[str, Any]) -> list[Written]:
    """By shard, how many records a release has; a plain one is one part. Raises FoldError if it does not say."""
    number = manifest.get("release")
    if "shards" not in manifest:
        cells, groups = manifest.get("cells"), manifest.get("groups")
        if type(cells) is not int or type(groups) is not int:
            raise FoldError(f"release {number} has a manifest that does not count its cells and groups")
        return [Written(cells, groups, 0)]
    shards = manifest["shards"]
    is_right = isinstance(shards, list) and all(
        isinstance(part, dict)
        and part.get("shard") == turn
        and isinstance(part.get("full"), bool)
        and all(type(part.get(name)) is int and part[name] >= 0 for name in _COUNTED)
        and isinstance(part.get("digest"), str)
        and re.fullmatch(r"[0-9a-f]{64}", part["digest"])
        for turn, part in enumerate(shards)
    )
    if not is_right:
        raise FoldError(f"release {number} has a manifest that does not name its shards")
    return [Written(*(part[name] for name in _COUNTED)) for part in shards]


class LookBack:
    """Finds the release to begin with, to know all records after a given one: each shard must be in full in one of
    those from there on. Give it the manifest of that release, then those before it, the latest first.
    """

    def __init__(self) -> None:
        self._needed: set[int] | None = None

    @property
    def is_done(self) -> bool:
        return self._needed is not None and not self._needed

    def see(self, manifest: Mapping[str, Any]) -> None:
        """Raises FoldError if the manifest does not name its shards."""
        parts_of(manifest)
        shards: Sequence[Mapping[str, Any]] = manifest.get("shards", ())
        if self._needed is None:
            self._needed = set(range(len(shards)))
        self._needed -= {part["shard"] for part in shards if part["full"]} if "shards" in manifest else self._needed


def by_kind(manifest: Mapping[str, Any], records: Sequence[bytes]) -> tuple[tuple[bytes, ...], ...]:
    """Records that stand part after part, taken apart into those of cells, of groups and of what is gone."""
    found: tuple[list[bytes], ...] = ([], [], [])
    at = 0
    for written in parts_of(manifest):
        for kind, count in zip(found, written, strict=True):
            kind += records[at : at + count]
            at += count
    return tuple(map(tuple, found))


def content_digest(records: Sequence[bytes]) -> str:
    """The sha256 of records, each followed by a newline."""
    digest = hashlib.sha256()
    for start in range(0, len(records), HASHED_AT_ONCE):
        digest.update(b"\n".join([*records[start : start + HASHED_AT_ONCE], b""]))
    return digest.hexdigest()


def _gone(rest: bytes, number: int) -> tuple[int, list[tuple[str, int]]]:
    """What a record of gone ids says: their shard, and each one's kind and number. Raises FoldError if it is none."""
    try:
        ids = json.loads(b"{" + rest)["gone"]
        found = [_ID.fullmatch(one) for one in ids]
    except (ValueError, TypeError, LookupError, RecursionError):
        found = [None]
    shards = {int(one[1] or 0) for one in found if one is not None}
    if None in found or len(shards) != 1:
        raise FoldError(f"release {number} has a record that is not one of its cells, groups or gone ids")
    return shards.pop(), [(one[2], int(one[3])) for one in found if one is not None]


def _head(table: str, number: int | None) -> bytes:
    """What a record begins with, up to `release`; without a number `release` is left out."""
    bare = f'{{"table":{json.dumps(table, ensure_ascii=False)},'
    return (bare if number is None else f'{bare}"release":{number},').encode()
