"""Encryption at rest: what a value looks like in Redis, with SHOAL_STATE_KEY and without.

A field never names anybody: people are called by their handles (core/randomness.py). Without a key a value is its
msgpack. With a key it is AES-256-GCM over the msgpack, bound to the kind of record and to its field, so that values
cannot be swapped between people. SHOAL_STATE_KEY may be a ring of several keys: the first one writes, all of them read,
and `shoal rekey` writes everything anew with the first.

An encrypted value begins with a byte that no msgpack begins with, and with the mark of its key:

    c1 | mark of the key, 3 bytes | nonce, 12 bytes | ciphertext and tag

Nonces are random; one key is good for 2^32 values (NIST SP 800-38D), about four thousand for each of a million people.
"""

import hashlib
import hmac
import os
from collections.abc import Sequence
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from shoal.streams.errors import InputError
from shoal.streams.settings import split_keys

_FIRST: Final = b"\xc1"
_MARK: Final = 3
_NONCE: Final = 12
_HEAD: Final = len(_FIRST) + _MARK + _NONCE
UNREADABLE: Final = (
    "Redis has a value that SHOAL_STATE_KEY does not decrypt: it was altered, or written under another key"
)


class Cipher(Protocol):
    """How values are written. `kind` is the kind of record: the same bytes under another kind are refused."""

    def encrypt(self, kind: bytes, field: bytes, value: bytes) -> bytes: ...
    def decrypt(self, kind: bytes, field: bytes, value: bytes) -> bytes: ...
    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Of the keys that read, the one that writes first."""


class PlainText:
    """No encryption."""

    fingerprints: Final = ("",)

    def encrypt(self, kind: bytes, field: bytes, value: bytes) -> bytes:  # noqa: ARG002
        return value

    def decrypt(self, kind: bytes, field: bytes, value: bytes) -> bytes:  # noqa: ARG002
        return value


class KeyRing:
    """Encrypts everything about a person with the first of some keys, and decrypts what any of them encrypted."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        marks = [derive(key, b"mark")[:_MARK] for key in keys]
        ciphers = [AESGCM(derive(key, b"value")) for key in keys]
        self._head, self._first = _FIRST + marks[0], ciphers[0]
        self._by_mark = dict(zip(marks, ciphers, strict=True))
        self.fingerprints = tuple(derive(key, b"fingerprint").hex()[:16] for key in keys)

    def encrypt(self, kind: bytes, field: bytes, value: bytes) -> bytes:
        # From the system each time: the planner's thread and the event loop share this object.
        nonce = os.urandom(_NONCE)
        return self._head + nonce + self._first.encrypt(nonce, value, kind + field)

    def is_current(self, value: bytes) -> bool:
        """Whether a value says that the first key wrote it."""
        return value.startswith(self._head)

    def decrypt(self, kind: bytes, field: bytes, value: bytes) -> bytes:
        """Raises InputError for anything that was not written under one of these keys, this kind and field."""
        cipher = self._by_mark.get(value[1 : 1 + _MARK]) if value[:1] == _FIRST else None
        if cipher is None:
            raise InputError(UNREADABLE)
        try:
            return cipher.decrypt(value[1 + _MARK : _HEAD], value[_HEAD:], kind + field)
        except (InvalidTag, ValueError):
            raise InputError(UNREADABLE) from None


def is_encrypted(value: bytes) -> bool:
    """Whether a value says that any key wrote it."""
    return value.startswith(_FIRST)


def make_cipher(state_key: bytes | None) -> Cipher:
    """The cipher of SHOAL_STATE_KEY as it is set: nothing, a key, or several."""
    return PlainText() if state_key is None else KeyRing([key.encode() for key in split_keys(state_key.decode())])


def make_strict_cipher(state_key: bytes | None, secret: bytes) -> KeyRing:
    """A cipher that encrypts in any case, for values that have ids in them: without SHOAL_STATE_KEY by SHOAL_KEY, which
    a table keeps.
    """
    ring = [] if state_key is None else [key.encode() for key in split_keys(state_key.decode())]
    return KeyRing([*ring, secret])


def field_hash(secret: bytes, identity: str) -> bytes:
    """A field that names nobody, for an identity that is found again by it."""
    return hashlib.blake2b(identity.encode(), key=derive(secret, b"field"), digest_size=16).digest()


def fingerprint(key: bytes, table: str) -> str:
    """What is stored to recognise a secret again. It reveals nothing to a reader who cannot guess the secret."""
    return derive(key, b"fingerprint of " + table.encode()).hex()[:16]


def derive(key: bytes, purpose: bytes) -> bytes:
    """A key of its own for each purpose."""
    return hmac.digest(key, b"shoal " + purpose, "sha256")
