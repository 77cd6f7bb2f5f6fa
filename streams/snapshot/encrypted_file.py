"""A file of private parts, encrypted and authenticated, of which no part can be changed, moved, added or left off.

Layout: a line that says what it is; the *cover*, a JSON object that anybody may read, after its length; then frames,
each after its length in four bytes. A frame is one part, compressed, in AES-256-GCM under a key that is derived for
this file alone, from the secret and a random salt in the cover. Its nonce is its number and, in the last byte, whether
it is the last (Hoang, Reyhanitabar, Rogaway and Vizar's STREAM). Every frame is bound to the cover. So a file that ends
before its last frame is cut short, whatever else is true of it, and one in which a bit differs is damaged.
"""

import hmac
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from shoal.streams.errors import InputError

MAGIC: Final = b"shoal snapshot\n"
FORMAT: Final = 1
_LENGTH: Final = 4
_LARGEST: Final = 64 * 1024 * 1024  # of a cover or frame: a damaged length must not fill the memory
_QUICK: Final = 1  # zlib's level; the next one saves a few bytes in a hundred and takes half as long again


class EncryptedWriter:
    """Writes the parts of one file, the last of them by `finish`."""

    def __init__(self, file: IO[bytes], secret: bytes, about: Mapping[str, Any]) -> None:
        salt = os.urandom(16).hex()
        cover = json.dumps({"format": FORMAT, **about, "key": fingerprint(secret), "salt": salt}).encode()
        self._file, self._frames = file, 0
        self._cipher, self._bound = _cipher(secret, salt), sha256(cover).digest()
        self._write(MAGIC + len(cover).to_bytes(_LENGTH) + cover)

    def add(self, part: bytes) -> None:
        self._frame(part, is_last=False)

    def finish(self, part: bytes) -> None:
        self._frame(part, is_last=True)

    def _frame(self, part: bytes, *, is_last: bool) -> None:
        packed = zlib.compress(part, _QUICK)
        frame = self._cipher.encrypt(_nonce(self._frames, is_last=is_last), packed, self._bound)
        assert len(frame) <= _LARGEST
        self._write(len(frame).to_bytes(_LENGTH) + frame)
        self._frames += 1

    def _write(self, content: bytes) -> None:
        view = memoryview(content)
        while view:
            view = view[self._file.write(view) :]


class EncryptedFile:
    """A file to read. `cover` is known before the secret is, and believed only once a part was read."""

    def __init__(self, path: Path) -> None:
        """Raises InputError if it cannot be read, is no such file, or has a format of a later version."""
        self.path = path
        try:
            with path.open("rb") as file:
                raw = self._head(file)
                self._begin = file.tell()
        except OSError as error:
            raise InputError(f"{path} cannot be read: {os.strerror(error.errno or 0)}") from None
        self._bound = sha256(raw).digest()
        try:
            self.cover: Mapping[str, Any] = json.loads(raw)
            written = int(self.cover["format"])
            str(self.cover["key"]), str(self.cover["salt"])
        except (ValueError, LookupError, TypeError):
            raise self.damaged() from None
        if written != FORMAT:
            raise InputError(
                f"{path} is a snapshot in format {written}, and this version of Shoal reads format {FORMAT}: use the "
                "version that wrote it, or a later one"
            )

    def parts(self, secrets: Sequence[bytes]) -> Iterator[bytes]:
        """The parts in their order, each of them authenticated. `secrets` are those that it may be written under.

        Raises InputError if it was written under another one, is damaged or cut short.
        """
        secret = next((one for one in secrets if fingerprint(one) == self.cover["key"]), None)
        if secret is None:
            raise InputError(
                f"{self.path} was written under another key: set SHOAL_STATE_KEY, or SHOAL_KEY if there was none, to "
                "the key that wrote it"
            )
        cipher, number, is_last = _cipher(secret, self.cover["salt"]), 0, False
        with self.path.open("rb") as file:
            file.seek(self._begin)
            while not is_last:
                frame = self._piece(file)
                part, is_last = self._open(cipher, number, frame)
                yield part
                number += 1
            if file.read(1):
                raise self.damaged()

    def _open(self, cipher: AESGCM, number: int, frame: bytes) -> tuple[bytes, bool]:
        for is_last in (False, True):
            try:
                packed = cipher.decrypt(_nonce(number, is_last=is_last), frame, self._bound)
            except InvalidTag:
                continue
            return zlib.decompress(packed), is_last
        raise self.damaged()

    def _head(self, file: IO[bytes]) -> bytes:
        if file.read(len(MAGIC)) != MAGIC:
            raise InputError(f"{self.path} is not a snapshot of Shoal")
        return self._piece(file)

    def _piece(self, file: IO[bytes]) -> bytes:
        length = file.read(_LENGTH)
        size = int.from_bytes(length)
        if len(length) == _LENGTH and size > _LARGEST:
            raise self.damaged()
        piece = file.read(size)
        if len(length) < _LENGTH or len(piece) < size:
            raise InputError(f"{self.path} is truncated: use another snapshot, or a whole copy of this one")
        return piece

    def damaged(self) -> InputError:
        """What to say if it is not what it was."""
        return InputError(f"{self.path} is damaged: use another snapshot, or a sound copy of this one")


def fingerprint(secret: bytes) -> str:
    """What says under which secret a file was written, to those who have it."""
    return hmac.digest(secret, b"shoal snapshot fingerprint", "sha256").hex()[:16]


def _cipher(secret: bytes, salt: str) -> AESGCM:
    return AESGCM(hmac.digest(secret, b"shoal snapshot " + salt.encode(), "sha256"))


def _nonce(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(11) + bytes([is_last])
