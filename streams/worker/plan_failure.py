"""The error of a release that cannot be planned. Its text says nothing about people."""

import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from shoal.core.plan import Window

_PACKAGE: Final = Path(__file__).resolve().parents[2]


class PlanFailedError(Exception):
    """A release cannot be planned: something in the window makes the engine fail. Never leaves the worker.

    Its text names the kind of error and the line of code, never the error's own text, which may quote an event. `again`
    plans another window in place of `window`, which ends at `ends`, and fails as this one did or does not. `places` has
    partition and offset of the record of each group of other publishers.
    """

    advice = (
        "find the record that stops it among those since the last release and leave it out with "
        "`shoal skip TOPIC PARTITION OFFSET`"
    )

    def __init__(
        self,
        release: int,
        window: Window,
        ends: Sequence[int],
        places: Sequence[tuple[int, int]],
        again: Callable[[Window], None],
        cause: BaseException,
    ) -> None:
        super().__init__(why_not(release, cause))
        self.release, self.window, self.ends, self.places, self.again = release, window, ends, places, again


class ShardsFailedError(Exception):
    """Some shards of a release cannot be planned. Never leaves the worker; its text is what they reported."""

    advice = (
        "`shoal shard dump` and `shoal shard plan` find the record that stops it; leave it out with "
        "`shoal skip TOPIC PARTITION OFFSET`"
    )

    def __init__(self, release: int, failed: Mapping[int, str]) -> None:
        super().__init__("; ".join(why for _, why in sorted(failed.items())))
        self.release = release


def frames_of(cause: BaseException) -> list[str]:
    """The lines of Shoal's own code that an error came through, the first call first."""
    frames = [frame for frame in traceback.extract_tb(cause.__traceback__) if _is_ours(frame.filename)]
    return [f"{_short(frame.filename)}:{frame.lineno} in {frame.name}" for frame in frames]


def why_not(release: int, cause: BaseException, done: str = "planned") -> str:
    """The kind of error and the line of code, never what the error says."""
    frames = [frame for frame in traceback.extract_tb(cause.__traceback__) if _is_ours(frame.filename)]
    place = f" at {_short(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return f"release {release} cannot be {done} ({type(cause).__name__}{place})"


def _is_ours(filename: str) -> bool:
    return _PACKAGE in Path(filename).resolve().parents


def _short(filename: str) -> str:
    return str(Path(filename).resolve().relative_to(_PACKAGE))
