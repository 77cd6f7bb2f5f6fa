"""The time of day of a worker, which a test can set: libfaketime (Debian: package `faketime`) answers for the kernel.

Only the time of day: nobody can set the monotonic clock of a machine.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

from deploy.local import Unavailable

_LIBRARIES = ("/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib/faketime/libfaketime.so.1")


class FakeClock:
    """A clock in a file. Workers that are started with `environment` read it there, once a second."""

    address, origin = "libfaketime", "preloaded"

    def __init__(self, path: Path, library: Path) -> None:
        self._path = path
        self.environment = MappingProxyType(
            {
                "LD_PRELOAD": str(library),
                "FAKETIME_TIMESTAMP_FILE": str(path),
                "FAKETIME_CACHE_DURATION": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
        )
        self.jump(0)

    def jump(self, seconds: int) -> None:
        """From now on the clock shows the true time and so many seconds more."""
        new = self._path.with_suffix(".new")
        new.write_text(f"{seconds:+d}")
        new.replace(self._path)


@contextlib.contextmanager
def fake_clock(folder: Path) -> Iterator[FakeClock]:
    """Raises Unavailable."""
    found = [path for pattern in _LIBRARIES for path in Path("/").glob(pattern[1:])]
    if not found:
        raise Unavailable("a clock that jumps needs libfaketime (package `faketime`)")
    yield FakeClock(folder / "clock", found[0])
