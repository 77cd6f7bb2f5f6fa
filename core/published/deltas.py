"""What stands after each release: all records of a table, put together from full releases and those of changes.

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
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from shoal.core.published.manifest import PublishedError, PublishedRelease, RecordCounts, WholeRecords, content_digest

_ID: Final = re.compile(r"(?:s(0|[1-9][0-9]{0,17})-)?([cg])(0|[1-9][0-9]{0,17})", re.ASCII)
_NAMED: Final = re.compile(rb'"(cell|group)":"(?:s(0|[1-9][0-9]{0,17})-)?([cg])(0|[1-9][0-9]{0,17})",')
_KINDS: Final = {b"cell": b"c", b"group": b"g"}


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


class StandingRecords:
    """The records of a table as they stand after the releases that it took, the first or a later one first.

    `number` is the last release that was taken. Begun in the middle, it has no records of a shard until one is full.
    """

    def __init__(self, table: str) -> None:
        self._table = table
        self.number = 0
        self._shards: dict[int, _Shard] = {}
        self._missing: set[int] = set()
        self._plain: WholeRecords | None = None  # instead of shards, where a release is plain

    @property
    def is_whole(self) -> bool:
        """Whether all records are known."""
        return not self._missing

    def take(self, release: PublishedRelease) -> None:
        """Take the next release. Raises PublishedError if it is not what its manifest says."""
        if self.number and release.number != self.number + 1:
            raise PublishedError(f"release {self.number + 1} is missing")
        if "shards" in release.meaning:
            self._take_parts(release)
        else:
            self._take_plain(release)
        self.number = release.number

    def whole(self) -> WholeRecords:
        """All records as they stand now. Raises PublishedError if some are not known."""
        if self._missing:
            raise PublishedError(
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
        return WholeRecords(cells, groups)

    def _take_plain(self, release: PublishedRelease) -> None:
        number, told, records = release.number, release.meaning, release.records
        if content_digest(records) != told.get("content"):
            raise PublishedError(f"release {number} has other records than its manifest says")
        cells, groups = told.get("cells"), told.get("groups")
        if not (type(cells) is int and type(groups) is int and cells + groups == len(records)):
            raise PublishedError(f"release {number} has another number of cells and groups than its manifest says")
        self._shards, self._missing = {}, set()
        self._plain = WholeRecords(records[:cells], records[cells:])

    def _take_parts(self, release: PublishedRelease) -> None:
        number, parts, told = release.number, release.head.parts, release.meaning["shards"]
        if self._plain is not None:
            whole = self._sort(self.number, self._plain.records, 1).get(0, _Change([], [], Counter()))
            self._shards = {0: self._apply(self.number, _Shard(), whole)}
        changes = self._sort(number, release.records, len(parts))
        shards: dict[int, _Shard] = {}
        missing: set[int] = set()
        for shard, (part, written) in enumerate(zip(told, parts, strict=True)):
            change = changes.get(shard, _Change([], [], Counter()))
            found = RecordCounts(*(change.counts[name] for name in RecordCounts._fields))
            if found != written:
                wrong = "does not have the part" if not found.total else "has other records than its manifest says"
                raise PublishedError(f"release {number} {wrong} of shard {shard}")
            base = self._shards.get(shard)
            if not part["full"] and base is None:
                missing.add(shard)
                continue
            shards[shard] = made = self._apply(number, base if base and not part["full"] else _Shard(), change)
            if made.digest().hex() != part["digest"]:
                raise PublishedError(
                    f"the records of shard {shard} after release {number} are not those that its manifest names: "
                    "one of this release, or of one before it, was changed or left out"
                )
        digests = b"".join([bytes.fromhex(part["digest"]) for part in told])
        if hashlib.sha256(digests).hexdigest() != release.meaning.get("content"):
            raise PublishedError(f"release {number} names another content than the digests of its shards make")
        self._shards, self._missing, self._plain = shards, missing, None

    def _apply(self, number: int, base: _Shard, change: _Change) -> _Shard:
        shard, bare = base.copy(), _head(self._table, None)
        for kind, gone in change.gone:
            if shard.kinds[kind].pop(gone, None) is None:
                raise PublishedError(f"release {number} names as gone what was not there before")
        for kind, key, rest in change.records:
            shard.kinds[kind][key] = rest, hashlib.sha256(bare + rest).digest()
        return shard

    def _sort(self, number: int, records: Iterable[bytes], count: int) -> dict[int, _Change]:
        """Records by shard. Raises PublishedError for one that is not of this release."""
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
            raise PublishedError(f"release {number} has a record of a shard that its manifest does not name")
        return found


def _gone(rest: bytes, number: int) -> tuple[int, list[tuple[str, int]]]:
    """What a record of gone ids says: their shard, and the kind and number of each. Raises PublishedError."""
    try:
        ids = json.loads(b"{" + rest)["gone"]
        found = [_ID.fullmatch(one) for one in ids]
    except (ValueError, TypeError, LookupError, RecursionError):
        found = [None]
    shards = {int(one[1] or 0) for one in found if one is not None}
    if None in found or len(shards) != 1:
        raise PublishedError(f"release {number} has a record that is not one of its cells, groups or gone ids")
    return shards.pop(), [(one[2], int(one[3])) for one in found if one is not None]


def _head(table: str, number: int | None) -> bytes:
    """What a record begins with, up to `release`; without a number `release` is left out."""
    bare = f'{{"table":{json.dumps(table, ensure_ascii=False)},'
    return (bare if number is None else f'{bare}"release":{number},').encode()
