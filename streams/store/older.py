"""A table in Redis as an older version left it (core/older.py), read whole.

Encryption was different when people were stored by their ids: the field was a keyed hash of the id, and the id stood
before the value inside the encryption.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from shoal.core.older import Layout, convert
from shoal.core.policy.policy import Policy
from shoal.core.randomness import KeyedByHandle
from shoal.core.state import State
from shoal.streams.errors import InputError, LostError
from shoal.streams.memory import without_cycle_search
from shoal.streams.settings import split_keys
from shoal.streams.store.encryption import UNREADABLE, derive
from shoal.streams.store.meta import TableMeta
from shoal.streams.store.records import KINDS, Counts, RecordKind, unpack
from shoal.streams.store.store import Store
from shoal.streams.store.whole_table import read_hashes
from shoal.streams.thread import in_thread

_NONCE: Final = 12
_LENGTH: Final = 4  # bytes that say how long the id is


class OlderCipher:
    """Decrypts what was encrypted before people had handles; without keys nothing was."""

    def __init__(self, state_key: bytes | None) -> None:
        keys = [] if state_key is None else split_keys(state_key.decode())
        self._ciphers = [AESGCM(derive(key.encode(), b"value")) for key in keys]

    def decrypt(self, kind: bytes, field: bytes, value: bytes) -> tuple[str, bytes]:
        """The id of the person whom a value is about, "" if it is about several, and the value. Raises InputError."""
        if not self._ciphers:
            return field.decode(), value
        for cipher in self._ciphers:
            try:
                plain = cipher.decrypt(value[:_NONCE], value[_NONCE:], kind + field)
            except (InvalidTag, ValueError):
                continue
            end = _LENGTH + int.from_bytes(plain[:_LENGTH])
            return plain[_LENGTH:end].decode(), plain[end:]
        raise InputError(UNREADABLE)


async def load_older_state(
    store: Store, policy: Policy, key: bytes, layout: Layout, meta: TableMeta, cipher: OlderCipher
) -> State:
    """The state of the last release, which must be applied. Raises LostError if records are missing, InputError."""
    keyed = KeyedByHandle(key, policy.table)
    with without_cycle_search():
        hashes = {kind.name: [found async for found in read_hashes(store, kind, meta.partitions)] for kind in KINDS}
        if Counts(*(sum(map(len, hashes[kind.name])) for kind in KINDS)) != meta.counts:
            raise LostError

        def build() -> State:
            records = {
                kind.name: convert(layout, kind.name, _opened(kind, hashes[kind.name], cipher), keyed) for kind in KINDS
            }
            return State.load(policy, keyed, meta.sealed, **records)

        return await in_thread(build)


def _opened(
    kind: RecordKind, hashes: Sequence[Mapping[bytes, bytes]], cipher: OlderCipher
) -> Iterator[tuple[Any, Sequence[Any]]]:
    """(identity, stored fields) of what these hashes hold."""
    for found in hashes:
        for field, value in found.items():
            person, content = "", value
            if kind.encrypted is not None:
                person, content = cipher.decrypt(kind.encrypted, field, value)
            yield person if kind.is_person else int(field), unpack(content)
