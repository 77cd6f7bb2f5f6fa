"""Building something large without Python's search for garbage in cycles.

Python searches whenever enough tuples, lists and dicts have been made. Loading a million people makes millions of them
and keeps most, so the search goes through all of them again and again and finds nothing.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_inside = 0


@contextmanager
def without_cycle_search() -> Iterator[None]:
    """No search for cycles, in any thread, until the last block of this kind is left."""
    global _inside  # noqa: PLW0603 - there is one collector in the process, and so one count
    with _lock:
        _inside += 1
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                gc.enable()
