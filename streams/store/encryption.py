"""Encryption at rest: what a hash field and a value look like in Redis, with SHOAL_STATE_KEY and without.

Without a key a field is the id and a value is its msgpack. With a key, a field is a keyed hash of the id, so no field
names anybody. A value is AES-256-GCM over the id and the msgpack, bound to the kind of record and to its field, so
values cannot be swapped between people. Nonces are random; one key is good for 2^32 values (NIST SP 800-38D), about
four thousand for each of a million people.
"""

import hashlib
import hmac
import os
from collections.abc import Iterator, Mapping
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from shoal.streams.errors import InputError

_NONCE = 12
_FIELD = 16


class Cipher(Protocol):
    """How ids and values are written. `kind` is the kind of record: the same bytes under another kind are refused."""

    def field(self, person_id: str) -> bytes: ...
    def encrypt(self, kind: bytes, field: bytes, person_id: str, value: bytes) -> bytes: ...
    def decrypt(self, kind: bytes, field: bytes, value: bytes) -> tuple[str, bytes]: ...
    def decrypt_all(self, kind: bytes, values: Mapping[bytes, bytes]) -> Iterator[tuple[str, bytes]]: ...
    @property
    def fingerprint(self) -> str: ...


class PlainText:
    """No encryption."""

    fingerprint = ""

    def field(self, person_id: str) -> bytes:
        return person_id.encode()

    def encrypt(self, kind: bytes, field: bytes, person_id: str, value: bytes) -> bytes:  # noqa: ARG002
        return value

    def decrypt(self, kind: bytes, field: bytes, value: bytes) -> tuple[str, bytes]:  # noqa: ARG002
        return field.decode(), value

    def decrypt_all(self, kind: bytes, values: Mapping[bytes, bytes]) -> Iterator[tuple[str, bytes]]:  # noqa: ARG002
        return ((field.decode(), value) for field, value in values.items())


class KeyedCipher:
    """Encrypts everything about a person."""

    def __init__(self, key: bytes) -> None:
        self._field_key = _derive(key, b"field")
        self._cipher = AESGCM(_derive(key, b"value"))
        self.fingerprint = _derive(key, b"fingerprint").hex()[:16]

    def field(self, person_id: str) -> bytes:
        return hashlib.blake2b(person_id.encode(), key=self._field_key, digest_size=_FIELD).digest()

    def encrypt(self, kind: bytes, field: bytes, person_id: str, value: bytes) -> bytes:
        person = person_id.encode()
        # From the system each time: the planner's thread and the event loop share this object.
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, len(person).to_bytes(4) + person + value, kind + field)

    def decrypt(self, kind: bytes, field: bytes, value: bytes) -> tuple[str, bytes]:
        """Raises InputError for anything that was not written under this key, kind and field."""
        try:
            plain = self._cipher.decrypt(value[:_NONCE], value[_NONCE:], kind + field)
        except (InvalidTag, ValueError):
            raise InputError(
                "Redis has a value that SHOAL_STATE_KEY does not decrypt: it was altered, or written under another key"
            ) from None
        end = 4 + int.from_bytes(plain[:4])
        return plain[4:end].decode(), plain[end:]

    def decrypt_all(self, kind: bytes, values: Mapping[bytes, bytes]) -> Iterator[tuple[str, bytes]]:
        return (self.decrypt(kind, field, value) for field, value in values.items())


def make_cipher(state_key: bytes | None) -> Cipher:
    return PlainText() if state_key is None else KeyedCipher(state_key)


def fingerprint(key: bytes, table: str) -> str:
    """What is stored to recognise a secret again. It reveals nothing to a reader who cannot guess the secret."""
    return _derive(key, b"fingerprint of " + table.encode()).hex()[:16]


def _derive(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, b"shoal " + purpose, "sha256")
