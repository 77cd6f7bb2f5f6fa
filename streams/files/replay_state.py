"""The private file in which `shoal replay --state` keeps its state until the next run.

It has what Redis has for the worker (people, groups, tree, cliques), and what replay needs besides: the secret, the
line to resume from, a digest of the lines before that line, and the size of `rejects.jsonl`. Each release replaces the
file as a whole, so it is always the state after one release. Only its owner may read it. People are called by their
handles; their ids stand only in the folder of the audit.

Layout: a line that names the format, a msgpack map (the header), one msgpack array per person, group, node, clique and
group of another publisher, and the sha256 of everything before it. A file that does not end in its own digest is
damaged and is refused.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import msgpack
import numpy as np

from shoal.core.migrations import FORMAT, Layout, convert
from shoal.core.policy.meaning import meaning_of
from shoal.core.policy.policy import Policy
from shoal.core.randomness import KeyedByHandle
from shoal.core.state import ENGINE, READERS, RECORDS, WRITERS, Meta, State
from shoal.streams.errors import InputError
from shoal.streams.files.policy_change import policy_at
from shoal.streams.files.release_folder import sync_folder
from shoal.streams.files.shards.sharded_table import SavedShards
from shoal.streams.memory import without_cycle_search

MAGIC = b"shoal replay state\n"
DIGEST_BYTES = 32


@dataclass(frozen=True)
class Position:
    """Where a run was when the state was saved: `line` lines were done, and `digest` is their sha256."""

    line: int
    digest: bytes
    rejects_bytes: int

    @classmethod
    def start(cls) -> "Position":
        return cls(0, sha256().digest(), 0)


@dataclass(frozen=True)
class SavedState:
    """A state file's content. Of a sharded table `state` has nobody in it: the people are in the files of `shards`."""

    secret: bytes
    position: Position
    state: State
    shards: SavedShards | None = None


class OpenedState:
    """A state file of any format, read as far as its header."""

    def __init__(self, header: dict[str, Any], stream: Iterator[Any]) -> None:
        self.header, self._stream = header, stream
        self.layout = Layout(header["format"], header["engine"])
        self.meta = Meta(*header["meta"])

    def load(self, policy: Policy) -> SavedState:
        """Its content, from a format that is known."""
        secret, position = self.header["secret"], Position(*self.header["position"])
        keyed = KeyedByHandle(secret, policy.table)
        if policy.shards > 1:
            shards = SavedShards(self.meta, *self.header["shards"])
            return SavedState(secret, position, State(policy, keyed, self.meta), shards)
        records = {}
        # They share one stream, so they are read in the order in which they were written.
        for name in RECORDS:
            stored = islice(self._stream, self.header["counts"].get(name, 0))
            read = READERS[name]
            records[name] = [(identity, read(convert(self.layout.number, name, fields))) for identity, fields in stored]
        state = State.load(policy, keyed, self.meta, **records)
        return SavedState(secret, position, state)


class StateFile:
    """One state file. It is locked while it is open, so that two runs never charge from the same ledger."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[bytes] | None = None

    @contextmanager
    def locked(self) -> Iterator["StateFile"]:
        """Takes the file's lock until the end of the block. Raises `InputError` if another run has it."""
        try:
            self._lock = self._take(self.path) if self.path.exists() else None
            yield self
        finally:
            if self._lock is not None:
                self._lock.close()

    def load(
        self, policy: Policy, secret: bytes | None, changes: Mapping[int, Policy] = MappingProxyType({})
    ) -> SavedState | None:
        """Reads the state; None if there is no file. Raises `InputError` if it is damaged or was made otherwise.

        One of this format that an older engine has made is as good: this one makes the next release.
        """
        if not self.path.exists():
            return None
        with without_cycle_search():
            opened = self.open()
            if not (opened.layout.is_known and opened.layout.is_current):
                raise other_version(self.path, opened.layout)
            policy = policy_at(opened.meta.release, policy, changes)
            self._check(opened.header, policy, secret)
            return opened.load(policy)

    def open(self) -> "OpenedState":
        """The file in whatever format, its records not read yet. Raises `InputError` if it is damaged."""
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {os.strerror(error.errno or 0)}.") from None
        if not content.startswith(MAGIC):
            raise InputError(f"{self.path} is not a state file of `shoal replay`.")
        body, digest = memoryview(content)[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
        if len(content) < len(MAGIC) + DIGEST_BYTES or sha256(body).digest() != digest:
            raise InputError(f"{self.path} is damaged; restore a copy of it, or start anew with another --out.")
        stream = msgpack.Unpacker(use_list=False, strict_map_key=False, max_buffer_size=0)
        stream.feed(body[len(MAGIC) :])
        return OpenedState(next(stream), stream)

    def save(self, secret: bytes, position: Position, state: State) -> None:
        """Replaces the file, atomically and with mode 0600. On failure the old file is untouched."""
        with without_cycle_search():
            records = {name: _stored(state, name) for name in RECORDS}
            counts = {"counts": {name: len(found) for name, found in records.items()}}
            self._replace(_header(secret, position, state.policy, state.meta) | counts, records)

    def save_shards(self, secret: bytes, position: Position, policy: Policy, shards: SavedShards) -> None:
        """The same for a sharded table, whose people stand in files of their own that are named by their digests."""
        content = {"shards": (shards.cuts, shards.digests)}
        self._replace(_header(secret, position, policy, shards.meta) | content, {})

    def _replace(self, header: dict[str, Any], records: Mapping[str, Iterable[object]]) -> None:
        temporary = self.path.with_name(f".{self.path.name}.partial")
        try:
            lock = _write_locked(temporary, header, tuple(records.values()))
            self._still_ours()
            temporary.replace(self.path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if self._lock is not None:
            self._lock.close()
        self._lock = lock  # taken before the file had its name, so that there is no moment without a lock
        sync_folder(self.path.parent)

    def _check(self, header: dict[str, Any], policy: Policy, secret: bytes | None) -> None:
        if header["policy"] != meaning_of(policy):
            raise InputError(
                f"{self.path} belongs to another policy; give that one, or switch to another with --change."
            )
        if secret is not None and header["secret"] != secret:
            raise InputError(
                f"{self.path} belongs to another seed; give the seed that this series of releases began with."
            )

    def _take(self, path: Path) -> IO[bytes]:
        while True:
            file = self._open(path)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                raise InputError(f"{path} is in use by another run of `shoal replay`.") from None
            if os.fstat(file.fileno()).st_ino == path.stat().st_ino:
                return file
            file.close()  # it was replaced between opening and locking

    def _open(self, path: Path) -> IO[bytes]:
        try:
            return path.open("rb")
        except OSError as error:
            raise InputError(f"{path} cannot be read: {os.strerror(error.errno or 0)}.") from None

    def _still_ours(self) -> None:
        ours = None if self._lock is None else os.fstat(self._lock.fileno()).st_ino
        there = self.path.stat().st_ino if self.path.exists() else None
        if ours != there:
            raise InputError(
                f"{self.path} was changed by another program while this run was using it; nothing was published."
            )


def other_version(path: Path, layout: Layout) -> InputError:
    """What to say of a state file that this version does not go on with as it is."""
    to_do = f"run `shoal upgrade {path}`" if layout.is_known else "use the version that wrote it"
    return InputError(
        f"{path} has format {layout.number} of engine {layout.engine}, and this version of Shoal has format {FORMAT} "
        f"of engine {ENGINE}: {to_do}."
    )


def _header(secret: bytes, position: Position, policy: Policy, meta: Meta) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "policy": meaning_of(policy),
        "engine": ENGINE,
        "secret": secret,
        "position": (position.line, position.digest, position.rejects_bytes),
        "meta": tuple(meta),
    }


def _stored(state: State, name: str) -> list[tuple[Any, tuple[Any, ...]]]:
    if name == "people":
        return list(state.stored_people(np.arange(len(state.people))))
    return [(key, WRITERS[name](record)) for key, record in state.records(name)]


def _write_locked(path: Path, header: dict[str, Any], parts: tuple[Iterable[object], ...]) -> IO[bytes]:
    """Writes and syncs a whole state file, and returns it open and locked."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    file = open(descriptor, "wb")  # noqa: PTH123, SIM115 - only a descriptor can be given a mode; open as long as the lock
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        digest = sha256()
        for chunk in _chunks(header, parts):
            digest.update(chunk)
            file.write(chunk)
        file.write(digest.digest())
        file.flush()
        os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):  # closing tries once more to write what could not be written
            file.close()
        raise
    return file


def _chunks(header: dict[str, Any], parts: tuple[Iterable[object], ...]) -> Iterator[bytes]:
    """The file in pieces of a few thousand records."""
    packer = msgpack.Packer(autoreset=False)
    yield MAGIC
    packer.pack(header)
    for part in parts:
        for count, record in enumerate(part):
            packer.pack(record)
            if count % 4096 == 0:
                yield packer.bytes()
                packer.reset()
    yield packer.bytes()
