"""Files that are written anew: never through an existing link, and never with an existing, looser mode.

A file is written beside its place, under a name that nobody has (O_EXCL does not follow a link), and then takes the
place of whatever has its name, a link itself included. A file that grows is opened without following a link, and gets
its mode again.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from shoal.streams.errors import InputError

PUBLIC, PRIVATE = 0o644, 0o600


def write_fresh(path: Path, content: bytes, mode: int = PUBLIC) -> None:
    """Replaces a file, atomically, and waits until the disk has its content. Raises OSError."""
    with fresh_file(path, mode) as file:
        view = memoryview(content)
        while view:
            view = view[file.write(view) :]


@contextmanager
def fresh_file(path: Path, mode: int = PUBLIC) -> Iterator[IO[bytes]]:
    """A file to be written piece by piece, unbuffered. At the end of the block the disk has its content and it takes
    its place; after an error nothing has changed. Raises OSError.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError as error:
        error.filename = str(path)  # the name that the caller knows
        raise
    try:
        with open(descriptor, "wb", buffering=0) as file:  # noqa: PTH123 - only a descriptor can be given a mode
            yield file
            os.fsync(descriptor)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def open_private(path: Path) -> IO[bytes]:
    """A file to append to, which its owner alone may read, whatever its mode was. Raises InputError."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK, PRIVATE)
    except OSError as error:
        what = "is a link" if error.errno == errno.ELOOP else f"cannot be written: {os.strerror(error.errno or 0)}"
        raise InputError(f"{path} {what}; remove it: private data goes only into a regular file of your own.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(
            f"{path} is not a regular file; remove it: private data goes only into a regular file of your own."
        )
    try:
        os.fchmod(descriptor, PRIVATE)
        return open(descriptor, "ab")  # noqa: PTH123 - only a descriptor can be given a mode; the caller closes it
    except PermissionError:
        os.close(descriptor)
        raise InputError(f"{path} belongs to another user, so it would not be private; remove it.") from None
