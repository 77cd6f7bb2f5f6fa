"""The file of one shard's state between two releases: columns that are mapped into memory, not read.

Layout: a line that names the format; the length of the header; the header, a msgpack map that says of each array its
type, shape and place; the arrays, each at a multiple of 64 bytes; as msgpack what has no columns, and what is there for
speed alone; at the end the sha256 of everything before it. A file that does not end in its own digest is damaged.

Writing to a thawed state changes memory only, never the file.
"""

import mmap
import os
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import numpy as np

from shoal.core.frozen import Frozen, freeze, thaw
from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed
from shoal.core.state import State
from shoal.streams.errors import InputError
from shoal.streams.files.shards.handles import StoredHandles, freeze_handles

MAGIC = b"shoal shard 1\n"
ALIGNED = 64
DIGEST_BYTES = 32
_HANDLES, _ORDER = "handles", "order"


def write_shard(path: Path, state: State, *, is_kept: bool) -> bytes:
    """Writes a state, with mode 0600, and returns the file's digest. If it `is_kept`, waits until the disk has it."""
    frozen = freeze(state)
    handles, order = freeze_handles(state.people.all_ids)
    arrays = frozen.arrays | {_HANDLES: handles, _ORDER: order}
    rest, texts = msgpack.packb(frozen.rest), msgpack.packb(frozen.texts)
    places, at = {}, 0
    for name, array in arrays.items():
        places[name] = (array.dtype.str, array.shape, at)
        at += -(-array.nbytes // ALIGNED) * ALIGNED
    header = msgpack.packb({"arrays": places, "rest": (at, len(rest)), "texts": (at + len(rest), len(texts))})
    start = MAGIC + len(header).to_bytes(8, "little") + header
    start += bytes(-len(start) % ALIGNED)
    digest = sha256()
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - only a descriptor can be given a mode
        for piece in (start, *(np.ascontiguousarray(array) for array in arrays.values()), rest, texts):
            raw = memoryview(piece).cast("B") if not isinstance(piece, np.ndarray) or piece.size else memoryview(b"")
            padding = bytes(-len(raw) % ALIGNED) if isinstance(piece, np.ndarray) else b""
            for part in (raw, padding):
                digest.update(part)
                file.write(part)
        file.write(digest.digest())
        file.flush()
        if is_kept:
            os.fsync(descriptor)
    return digest.digest()


class ShardFile(NamedTuple):
    """A file that is mapped into memory, with the state in it."""

    state: State
    handles: StoredHandles


def map_shard(path: Path, policy: Policy, keyed: Keyed, *, digest: bytes | None = None) -> ShardFile:
    """The state in a file. With `digest` all of it is read and has to match, and what is there for speed is there.

    Raises `InputError` if the file is damaged or another one.
    """
    try:
        with path.open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError):
        raise InputError(f"{path} cannot be read; restore a copy of it and of --state, or start anew.") from None
    whole = memoryview(content)
    if digest is not None and (whole[-DIGEST_BYTES:] != digest or sha256(whole[:-DIGEST_BYTES]).digest() != digest):
        raise InputError(f"{path} is damaged; restore a copy of it and of --state, or start anew.")
    begin = len(MAGIC) + 8
    size = int.from_bytes(whole[len(MAGIC) : begin], "little")
    header = _unpack(whole[begin : begin + size])
    base = begin + size + -(begin + size) % ALIGNED
    arrays = {
        name: np.frombuffer(content, dtype=kind, count=int(np.prod(shape)), offset=base + at).reshape(shape)
        for name, (kind, shape, at) in header["arrays"].items()
    }
    rest, texts = (whole[base + at : base + at + length] for at, length in (header["rest"], header["texts"]))
    handles = StoredHandles(arrays.pop(_HANDLES), arrays.pop(_ORDER))
    frozen = Frozen(arrays, _unpack(rest), {} if digest is None else _unpack(texts))
    return ShardFile(thaw(policy, keyed, frozen, handles), handles)


def _unpack(packed: memoryview) -> Any:
    return msgpack.unpackb(packed, use_list=False, strict_map_key=False)
