"""What a process with a large state does about its memory: no search for cycles while it builds, and one heap.

Python searches for garbage in cycles whenever enough tuples, lists and dicts have been made. Loading a million people
makes millions of them and keeps most, so the search goes through all of them again and again and finds nothing.

The C library gives threads heaps of their own, up to eight for each core, and what a thread frees stays in its heap.
Every plan runs in a new thread, so after some releases each heap keeps what one plan needed at most. Python's threads
take turns anyway: with one heap they lose nothing, and a plan uses what the one before it left.
"""

import ctypes
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_M_ARENA_MAX: Final = -8  # as malloc.h of the GNU C library has it
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


def use_one_heap() -> bool:
    """Let all threads of this process share one heap. Call it before the first thread starts.

    False if the C library has no such setting: then memory stays as that library has it.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(set_option(_M_ARENA_MAX, 1))
