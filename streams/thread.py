"""Running a long computation beside the event loop, in a thread that does not keep the process from ending.

Python waits at exit for the threads of the default executor. A plan under way would delay a shutdown for as long as it
takes, and for nothing: a release that is not sealed is planned again.

`numpy.unique` looks for `numpy.ma`, which numpy imports when it is first asked for it. Two threads that ask at the same
moment may end with a RecursionError, and shards are planned side by side. So it is imported here, before any thread is.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import islice
from typing import ParamSpec, TypeVar

import numpy.ma  # noqa: F401 - see above

from shoal.streams.memory import without_cycle_search

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` in a thread, and return or raise what it does. Cancelling ends the waiting, not the thread."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, error: BaseException | None) -> None:
        if outcome.cancelled():
            return
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, raised = None, None
        try:
            with without_cycle_search():
                result = function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - it is raised where the outcome is awaited
            raised = error
        with contextlib.suppress(RuntimeError):  # the loop is closed, and no caller waits any more
            loop.call_soon_threadsafe(finish, result, raised)

    threading.Thread(target=run, name="shoal-plan", daemon=True).start()
    return await outcome


async def ahead(items: Iterable[T], count: int) -> AsyncIterator[list[T]]:
    """Lists of `count` items, the last one shorter: while the caller works on one, a thread makes the next."""
    source = iter(items)

    def take() -> list[T]:
        return list(islice(source, count))

    taking = asyncio.ensure_future(in_thread(take))
    try:
        while found := await taking:
            taking = asyncio.ensure_future(in_thread(take))
            yield found
    finally:
        taking.cancel()
