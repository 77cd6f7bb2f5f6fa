"""Making something large without looking for cycles meanwhile.

Python looks for garbage in cycles whenever enough tuples, lists and dicts have been made. Loading a million people
makes millions of them and keeps most, so it looks through all of them again and again and finds nothing.
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
    global _inside  # noqa: PLW0603 - the collector is the process's, and so is how many want it quiet
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
