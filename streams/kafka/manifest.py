"""The manifest's record on the releases topic: how it is told from the others, and what its headers say.

| header   | value |
|----------|-------|
| kind     | `manifest`; records of cells and groups have no headers |
| offsets  | JSON: by partition of the events topic, the offset at which the window of the release ended |
| external | JSON: the same for the external topic |
| trigger  | the offset of the trigger that the release was made for |
| at       | the time that the trigger named; absent if it named none |
| key      | a fingerprint of SHOAL_KEY, by which a rebuild sees that it has the right one |
| skipped  | JSON: by label, the offsets of the window's records that an operator left out; absent if there are none |
| policy   | the sha256 of what the policy means, whatever its file looks like |
| states   | JSON, with shards: of each the proof of its state (streams/store/state_digest.py) |
| parts    | JSON, with shards: of each the offset of its first record on its partition, and the one after its last |

They are what a rebuild needs to make the same release again. This module alone writes and reads them. Behind them stand
those of a CloudEvent (cloud_event.py), which Shoal itself does not read.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shoal.core.published.manifest import Manifest
from shoal.streams.errors import GuaranteeError, InputError
from shoal.streams.kafka.cloud_event import release_event

KIND, _MANIFEST = "kind", b"manifest"
_OFFSETS, _EXTERNAL, _TRIGGER, _AT, _SKIPPED = "offsets", "external", "trigger", "at", "skipped"
_POLICY, _KEY, _PARTS, _STATES = "policy", "key", "parts", "states"

Headers = Sequence[tuple[str, bytes]]


class Origin(NamedTuple):
    """What a release was made of: where its windows ended, its trigger, and the time that the trigger named."""

    offsets: Sequence[int]
    trigger: int
    at: str | None = None
    external: Sequence[int] = ()
    skipped: Mapping[str, Sequence[int]] = {}
    """By label, the offsets of records of this window that were left out."""
    policy: str = ""
    """What the policy meant."""
    key: str = ""
    """A fingerprint of the secret."""


class ManifestRecord(NamedTuple):
    """The manifest of a committed release, and what its record on the topic says."""

    number: int
    head: Manifest
    headers: Mapping[str, bytes]
    offset: int

    @property
    def value(self) -> bytes:
        """The manifest's bytes."""
        return self.head.raw


def write_origin(origin: Origin) -> list[tuple[str, bytes]]:
    """The headers that say what a release was made of; they are sealed with it."""
    headers = [(_OFFSETS, _numbers(origin.offsets)), (_EXTERNAL, _numbers(origin.external))]
    headers.append((_TRIGGER, str(origin.trigger).encode()))
    if origin.at is not None:
        headers.append((_AT, origin.at.encode()))
    if origin.skipped:
        headers.append((_SKIPPED, json.dumps(origin.skipped, sort_keys=True).encode()))
    return [*headers, (_POLICY, origin.policy.encode()), (_KEY, origin.key.encode())]


def manifest_headers(table: str, number: int, sealed: Headers) -> Headers:
    """The headers of the record: `sealed`, and what says that it is a manifest, to Shoal and as a CloudEvent."""
    at = dict(sealed).get(_AT)
    return ((KIND, _MANIFEST), *sealed, *release_event(table, number, None if at is None else at.decode()))


def read_origin(release: int, headers: Mapping[str, bytes], partitions: int | None = None) -> Origin:
    """What `write_origin` has written. Raises InputError if the headers do not say it, or for other partitions."""
    try:
        offsets = [int(end) for end in json.loads(headers[_OFFSETS])]
        external = [int(end) for end in json.loads(headers[_EXTERNAL])]
        trigger = int(headers[_TRIGGER])
        left_out = json.loads(headers.get(_SKIPPED, b"{}"))
        skipped = {str(label): [int(offset) for offset in listed] for label, listed in left_out.items()}
        policy, key = headers[_POLICY].decode(), headers[_KEY].decode()
        at = headers[_AT].decode() if _AT in headers else None
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise InputError(
            f"release {release} does not name the offsets it was made from, so it cannot be made again"
        ) from None
    if partitions not in (None, len(offsets)):
        raise InputError(
            f"release {release} was made of {len(offsets)} partitions of the events topic, which has {partitions}"
        )
    return Origin(offsets, trigger, at, external, skipped, policy, key)


def trigger_of(headers: Mapping[str, bytes]) -> int:
    """The offset of the trigger that a release was made for, -1 if the headers do not say."""
    found = headers.get(_TRIGGER, b"")
    return int(found) if found.isdigit() else -1


def manifest_of(record: Any) -> ManifestRecord | None:
    """The manifest in a record of the releases topic, None if it is a cell's or a group's.

    Raises GuaranteeError if it calls itself a manifest and is none.
    """
    return record_of(record, _MANIFEST)


def record_of(record: Any, kind: bytes) -> ManifestRecord | None:
    """The manifest that is the value of a record of some kind, None if the record is of another kind.

    Raises GuaranteeError if it calls itself one and has none.
    """
    headers, head = dict(record.headers), Manifest(record.value or b"")
    if headers.get(KIND) != kind:
        return None
    if head.number is None:
        raise not_ours(record.topic, record.offset)
    return ManifestRecord(head.number, head, headers, record.offset)


def write_parts(parts: Sequence[tuple[int, int]]) -> tuple[str, bytes]:
    """The header `parts`."""
    return _PARTS, json.dumps([list(pair) for pair in parts], separators=(",", ":")).encode()


def write_states(proofs: Sequence[str]) -> tuple[str, bytes]:
    """The header `states`."""
    return _STATES, json.dumps(list(proofs), separators=(",", ":")).encode()


def read_states(headers: Mapping[str, bytes]) -> list[str] | None:
    """What `write_states` wrote. None without the header; if it is no list, a value that no state has."""
    if _STATES not in headers:
        return None
    try:
        return [str(proof) for proof in json.loads(headers[_STATES])]
    except (ValueError, TypeError, RecursionError):
        return []


def has_parts(headers: Mapping[str, bytes]) -> bool:
    """Whether the records of a release stand on a partition for each shard."""
    return _PARTS in headers


def read_parts(release: int, headers: Mapping[str, bytes], shards: int) -> list[tuple[int, int]]:
    """The inverse. Raises InputError if it does not say it, or for another number of shards."""
    try:
        found = [(int(first), int(end)) for first, end in json.loads(headers[_PARTS])]
    except (KeyError, ValueError, TypeError, OverflowError, RecursionError):
        found = []
    if len(found) != shards:
        raise InputError(f"release {release} does not say where the parts of its {shards} shards are")
    return found


def not_ours(topic: str, offset: int) -> GuaranteeError:
    """For a record of the releases topic that no worker has written."""
    return GuaranteeError(
        f"topic {topic} has a record at offset {offset} that no worker of Shoal has written, and every reader stops "
        "there: let nobody but the workers write to this topic, and go on with what was published under a new table"
    )


def _numbers(numbers: Sequence[int]) -> bytes:
    return json.dumps(list(numbers), separators=(",", ":")).encode()
