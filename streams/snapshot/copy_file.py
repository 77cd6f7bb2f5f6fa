"""A copy of everything that Redis holds of a table, byte for byte, in one file: what an upgrade keeps before it begins.

A snapshot is of a release and is read by later versions. A copy is of Redis as it is, in whatever format: it is for
going back to the version that wrote it. It is encrypted as a snapshot is. Each part is [key, items]; the last one is
the number of items.
"""

from collections.abc import Sequence
from pathlib import Path

from shoal.core.migrations import Layout
from shoal.streams.errors import InputError
from shoal.streams.faults import crash_point
from shoal.streams.files.fresh_file import PRIVATE, fresh_file
from shoal.streams.files.release_folder import sync_folder
from shoal.streams.snapshot.encrypted_file import EncryptedFile, EncryptedWriter
from shoal.streams.snapshot.snapshot_file import COPY
from shoal.streams.store.records import pack, unpack
from shoal.streams.store.replacing import Piece, read_pieces, replace, write_piece
from shoal.streams.store.store import Store


def copy_path(folder: Path, table: str, release: int, layout: Layout) -> Path:
    """Where the copy of a table goes; one of the same release and version is replaced."""
    return folder / f"{table}-{release:08}-format-{layout.number}-engine-{layout.engine}.copy"


async def keep_copy(store: Store, secret: bytes, path: Path, layout: Layout) -> None:
    """Write a copy. Nobody may write to the table meanwhile. Raises RedisError, OSError."""
    items = 0
    with fresh_file(path, PRIVATE) as file:
        about = {"table": store.table, COPY: [layout.number, layout.engine]}
        writer = EncryptedWriter(file, secret, about)
        async for piece in read_pieces(store):
            writer.add(pack(tuple(piece)))
            items += len(piece.items)
            crash_point("upgrade.2.part")
        writer.finish(pack(items))
    sync_folder(path.parent)


async def put_back(store: Store, path: Path, secrets: Sequence[bytes]) -> Layout:
    """Replace everything that Redis holds of a table by a copy; returns the format and engine that it is of.

    Raises InputError if the file is no copy of this table, damaged or cut short: then nothing is touched.
    """
    file = EncryptedFile(path)
    if file.cover.get("table") != store.table or COPY not in file.cover:
        raise InputError(f"{path} is not a copy of table {store.table} that `shoal upgrade` has kept")
    beside, items = store.beside(), 0
    await beside.wipe()
    for part in file.parts(secrets):
        content = unpack(part)
        if isinstance(content, int):
            if content != items:
                raise file.damaged()
            break
        await write_piece(beside, Piece(*content))
        items += len(content[1])
        crash_point("upgrade.back.part")
    await replace(store)
    return Layout(*file.cover[COPY])
