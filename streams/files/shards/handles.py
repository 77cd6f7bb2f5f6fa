"""The handles of a shard's people as one array in its file, searched there, so that nobody has to be read to be found.

Layout. A handle is 15 bytes, of which the first eight are the person's tag (core/randomness.py). Beside the handles by
row stand the rows in the order of their tags. People who were added since the file was written are kept apart.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.person import IdList
from shoal.core.randomness import Tags

BYTES, TAG_BYTES = 15, 8

Handles = NDArray[np.uint8]  # a line of 15 bytes each


def pack_handles(handles: Iterable[str]) -> Handles:
    """Handles as lines of bytes."""
    return np.frombuffer(b64decode("".join(handles)), dtype=np.uint8).reshape(-1, BYTES)


def tags_of(handles: Handles) -> Tags:
    """The tags that handles begin with."""
    return np.ascontiguousarray(handles[:, :TAG_BYTES]).view("<u8").ravel().astype(np.uint64)


class StoredHandles:
    """The handles of a file by row, and rows by handle; what is added stays in memory."""

    def __init__(self, handles: Handles, order: NDArray[np.int32]) -> None:
        self.stored, self._order = handles, order
        self._tags: Tags | None = None  # in order
        self.added: list[str] = []
        self._rows: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.stored) + len(self.added)

    def __getitem__(self, row: int) -> str:
        if row >= len(self.stored):
            return self.added[row - len(self.stored)]
        return b64encode(self.stored[row].tobytes()).decode()

    def extend(self, handles: Iterable[str]) -> None:
        self.added.extend(handles)

    def get(self, handle: str) -> int | None:
        found = self._rows.get(handle)
        if found is None and len(self.stored):
            row = int(self.find(pack_handles([handle]))[0])
            return None if row < 0 else row
        return found

    def update(self, rows: Mapping[str, int]) -> None:
        self._rows.update(rows)

    def find(self, wanted: Handles) -> Rows:
        """The row of each of these handles as far as the file has them, else -1. One search for all."""
        if self._tags is None:
            self._tags = tags_of(self.stored)[self._order]
        tags = tags_of(wanted)
        at = np.searchsorted(self._tags, tags)
        found = np.full(len(wanted), -1, dtype=np.int64)
        asked = np.arange(len(wanted))
        while asked.size:  # more than once only where two people have one tag
            asked = asked[at[asked] < len(self._tags)]
            asked = asked[self._tags[at[asked]] == tags[asked]]
            rows = self._order[at[asked]]
            is_same = (self.stored[rows] == wanted[asked]).all(axis=1)
            found[asked[is_same]] = rows[is_same]
            asked = asked[~is_same]
            at[asked] += 1
        return found


def freeze_handles(handles: IdList) -> tuple[Handles, NDArray[np.int32]]:
    """All handles by row, and the rows in the order of their tags."""
    if isinstance(handles, StoredHandles):
        packed = np.concatenate([handles.stored, pack_handles(handles.added)])
    else:
        packed = pack_handles(handles[row] for row in range(len(handles)))
    return packed, np.argsort(tags_of(packed), kind="stable").astype(np.int32)
