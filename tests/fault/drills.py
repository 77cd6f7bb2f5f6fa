"""Drills: on a table of its own a worker dies at a step, or Redis does, and afterwards everything must be right.

The drills of a file run beside each other: most of a drill is waiting for a process to start, or for Kafka to notice
that one is gone.
"""

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fault.scene import PATIENCE_S, Scene
from tests.support.services.table import Worker, await_that

Drills = Mapping[tuple[Any, ...], "Future[None]"]
_MOST_RELEASES = 6  # until the worker has died


class Stage:
    """Where the scenes of a file's drills are. The file's fixture `drills` names them and says what each does."""

    def __init__(self, request: pytest.FixtureRequest, kafka: str, redis: str, folder: Path) -> None:
        self._request, self._kafka, self._redis, self._folder = request, kafka, redis, folder

    @contextmanager
    def scene(self, point: str, **changes: Any) -> Iterator[Scene]:
        """A table of a drill's own, named after the point at which something happens."""
        name = re.sub(r"[: ]+", "-", point) + f"-{secrets.token_hex(4)}"
        made = Scene(self._kafka, self._redis, self._folder, name, **changes)
        try:
            yield made
        finally:
            made.close()

    @contextmanager
    def started(self, names: Sequence[str], drill: Callable[..., None], at_once: int) -> Iterator[Drills]:
        """The drills of this file that the run has chosen, so many at a time; `names` are their parameters."""
        items: list[Any] = self._request.session.items
        here = [item for item in items if item.path == self._request.path and hasattr(item, "callspec")]
        wanted = [tuple(item.callspec.params[name] for name in names) for item in here]
        with ThreadPoolExecutor(at_once) as pool:
            futures = {one: pool.submit(drill, *one) for one in wanted}
            yield futures
            for future in futures.values():
                future.cancel()


def die_at(scene: Scene, point: str, beside: str = "") -> Worker:
    """Start a worker that dies at this point, and let more and more happen until it has.

    With `beside` another one works on the same table, and dies at the point of that name. If it is the same point,
    whoever comes to it first dies: only one of two workers is the planner, and nobody knows which.
    """
    if not beside:
        scene.ask()  # of whoever comes
    doomed = [scene.start(CRASH_AT=point)]
    if beside:
        other = scene.start(CRASH_AT=beside)
        doomed += [other] if beside == point else []
        other.await_log("ingest.loaded", PATIENCE_S)
        scene.ask()

    def dead() -> Worker | None:
        return next((worker for worker in doomed if worker.process.poll() is not None), None)

    for _ in range(_MOST_RELEASES):
        served = len(scene.releases())
        await_that(
            lambda served=served: dead() is not None or len(scene.releases()) > served,
            PATIENCE_S,
            *(worker._log for worker in doomed),
            pause_s=0.3,
        )
        if dead() is not None:
            break
        scene.pour(100)
        scene.ask()
    await_that(lambda: dead() is not None, PATIENCE_S, *(worker._log for worker in doomed))
    dying = dead()
    assert dying is not None
    assert dying.wait() == -9, dying.log
    return dying
