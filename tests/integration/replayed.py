"""What stands on a table's topics, as one file of events; and whether `shoal replay` makes the same releases of it."""

import json
from types import MappingProxyType

import msgpack

from shoal.streams.files.policy_change import Changes
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.files.replay import Job, replay
from tests.integration.mixture import MSGPACK
from tests.support.published import published_lines
from tests.support.services.table import KEY, Published, Record, Table


class _Nobody:
    """Watches a replay without a word."""

    def note(self, sentence: str) -> None: ...

    def begin(self, size_bytes: int | None) -> None: ...

    def read(self, size_bytes: int) -> None: ...

    def released(self, number: int) -> None: ...


def line_of(record: Record) -> bytes | None:
    """A record of the events topic as a line; None where it cannot be one, or means something else in a file."""
    if record.value is not None and (b"release" in record.value or b"external" in record.value):
        return None  # on Kafka these have topics of their own
    return _line(record)


def request_line(release: Published) -> bytes:
    """The line that makes this release at the end of its window."""
    at = release.headers.get("at")
    return b'{"op": "release", "at": "%s"}' % at if at else b'{"op": "release"}'


def is_astray(table: Table, record: Record) -> bool:
    """Whether an event came to another partition than its person's. It has no counterpart: a file has one order."""
    return record.key is not None and table.home(record.key.decode()) != record.partition


def assert_a_replay_makes_the_same(table: Table, changes: Changes = MappingProxyType({})) -> None:
    """Write the topics to a file and replay it: every release must have the published bytes."""
    lines: list[bytes] = []
    shares, rest = table.shares()
    assert not rest, "events are missing from the releases"
    for share in shares:
        lines += [line_of(record) or b"{broken" for record in share.events if not is_astray(table, record)]
        lines += [_line(record) or b"{broken" for record in share.external]
        lines.append(request_line(share.release))
    file, out = table.folder / f"{table.name}.jsonl", table.folder / f"{table.name}-replayed"
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    job = Job(load_policy(table.policy_path), str(file), out, secret=KEY.encode(), changes=changes)
    replay(job, _Nobody())
    assert len(list(out.glob("release-*"))) == len(shares)
    for release in (share.release for share in shares):
        made = out / f"release-{release.number:04}"
        assert published_lines(made) == b"".join(record + b"\n" for record in sorted(release.records, key=_kind))
        assert (made / "manifest.json").read_bytes() == release.manifest


def _kind(record: bytes) -> int:
    """Files have the cells of all shards first, then the groups; a topic has one shard after the other."""
    named = json.loads(record)
    return ["cell" in named, "group" in named, True].index(True)


def _line(record: Record) -> bytes | None:
    kind = record.headers.get("content-type")
    if record.value is None or kind == b"text/csv":
        return None
    if kind != MSGPACK:
        return None if b"\n" in record.value else record.value or None
    try:
        return json.dumps(msgpack.unpackb(record.value)).encode()
    except (ValueError, TypeError):
        return None
