"""Items that a thread makes ahead: all of them, in order, and an error where it happened."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from shoal.streams.thread import ahead
from tests.support.root import ROOT


async def test_items_come_in_lists_and_in_their_order() -> None:
    assert [found async for found in ahead(range(7), 3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [found async for found in ahead(range(0), 3)] == []


async def test_the_next_list_is_made_in_another_thread_while_the_caller_works() -> None:
    made = threading.Event()

    def items() -> Iterator[int]:
        assert threading.current_thread() is not threading.main_thread()
        yield 1
        made.set()
        yield 2

    async for found in ahead(items(), 1):
        if found == [1]:
            assert await asyncio.to_thread(made.wait, 10), "nobody works ahead"


async def test_an_error_is_raised_after_what_came_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("the second")

    coming = ahead(items(), 1)
    assert await anext(coming) == [1]
    with pytest.raises(ValueError, match="the second"):
        await anext(coming)


def test_what_numpy_imports_late_is_there_before_there_is_a_thread() -> None:
    """Two threads that call `numpy.unique` for the first time, at the same moment, may fail."""
    script = "import sys, shoal.streams.thread; sys.exit('numpy.ma' not in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT).returncode == 0
