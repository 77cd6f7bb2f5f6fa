"""Keyed randomness: everything random in Shoal is a keyed hash of the secret, so the same inputs give the same bytes.

Nothing here reads a clock or the operating system's entropy. A person's *tag* is a keyed hash of their id: it stands
in for the id wherever an order or a draw is needed, so that neither the order of arrival nor the id itself shows in
what is published. Uses are kept apart by blake2b's personalisation field.

A person's *handle* stands in for the id wherever the person has to be found again: in Redis, in state files, in
snapshots. It is 15 bytes as text, the tag and 7 bytes of a second keyed hash. So two of a thousand million people have
the same handle with a probability of 4e-19, and nobody without the secret can tell whose a handle is, not even by
trying all ids. Whether a table is planned by ids or by handles makes no difference to what is published.
"""

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Tags = NDArray[np.uint64]


_TAG, _REST = 8, 7  # bytes of a handle


class Keyed:
    """The one source of randomness of one table, whose people are called by their ids."""

    def __init__(self, secret: bytes, table: str) -> None:
        if not secret:
            raise ValueError("the secret is empty")
        self._key = hashlib.blake2b(secret, digest_size=32, key=table.encode()[:64]).digest()
        self._tag = hashlib.blake2b(key=self._key, digest_size=_TAG, person=b"shoal-tag")
        self._rest = hashlib.blake2b(key=self._key, digest_size=_REST, person=b"shoal-handle")

    def __repr__(self) -> str:
        return "Keyed(secret hidden)"

    def derive(self, purpose: str) -> bytes:
        """A secret of this table for another use."""
        return hashlib.blake2b(purpose.encode(), key=self._key, digest_size=32, person=b"shoal-derived").digest()

    def tags(self, ids: Iterable[str]) -> Tags:
        """The tags of these people, one keyed hash each."""
        digests = bytearray()
        for person_id in ids:
            state = self._tag.copy()
            state.update(person_id.encode())
            digests += state.digest()
        return np.frombuffer(bytes(digests), dtype="<u8").astype(np.uint64)

    def handle(self, person_id: str) -> str:
        """What a person is called instead of by their id. Costs two hashes."""
        text = person_id.encode()
        tag, rest = self._tag.copy(), self._rest.copy()
        tag.update(text)
        rest.update(text)
        return b64encode(tag.digest() + rest.digest()).decode()

    def draw(self, tags: Tags, number: int, purpose: str) -> Tags:
        """A fresh pseudo-random number for each tag, for one release and one purpose (vectorised splitmix64)."""
        seed = hashlib.blake2b(f"{number}/{purpose}".encode(), key=self._key, digest_size=8, person=b"shoal-draw")
        salt = np.uint64(int.from_bytes(seed.digest(), "little"))
        mixed = tags ^ salt
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)), dtype=np.uint64)

    def coin(self, tags: Tags, share: float) -> NDArray[np.bool_]:
        """Whether each tag's coin shows heads, with probability `share`; the coin of a tag always shows the same."""
        if share >= 1.0:
            return np.ones(len(tags), dtype=bool)
        return np.asarray(self.draw(tags, 0, "sampling") < np.uint64(int(share * 2.0**64)))

    def case_id(self, person_id: str, since: int) -> str:
        """The pseudonym of a person whose quasi-identifiers are unchanged since release `since`."""
        return self._case_id(self.handle(person_id), since)

    def _case_id(self, handle: str, since: int) -> str:
        text = f"{since}/{handle}".encode()
        return hashlib.blake2b(text, key=self._key, digest_size=12, person=b"shoal-case").hexdigest()


class KeyedByHandle(Keyed):
    """The same for a table whose people are called by their handles: the same tags, and so the same draws."""

    def tags(self, ids: Iterable[str]) -> Tags:
        handles = np.frombuffer(b64decode("".join(ids)), dtype=np.uint8).reshape(-1, _TAG + _REST)
        return np.ascontiguousarray(handles[:, :_TAG]).view("<u8").ravel().astype(np.uint64)

    def case_id(self, person_id: str, since: int) -> str:
        return self._case_id(person_id, since)
