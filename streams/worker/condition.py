"""The planner's condition, for those who ask: `/ready`, metrics and people."""

import traceback
from pathlib import Path
from typing import Final, NamedTuple

_PACKAGE: Final = Path(__file__).resolve().parents[2]


class Condition(NamedTuple):
    """What the planner does, and, if it is stuck, why and what to do about it. Neither says anything about people."""

    state: str
    reason: str | None = None

    @property
    def is_stuck(self) -> bool:
        return self.state == STUCK


ELSEWHERE: Final = "elsewhere"  # another worker plans
STARTING: Final = "starting"
WAITING: Final = "waiting"  # for a trigger
RELEASING: Final = "releasing"
STUCK: Final = "stuck"
STATES: Final = (ELSEWHERE, STARTING, WAITING, RELEASING, STUCK)


class PlanFailedError(Exception):
    """A release cannot be planned: the window has something that the engine does not get over. Never leaves the worker.

    Its text names the kind of error and the line of code, never what the error says: that may quote an event.
    """

    def __init__(self, release: int, cause: BaseException) -> None:
        frames = [frame for frame in traceback.extract_tb(cause.__traceback__) if _is_ours(frame.filename)]
        place = f" at {_short(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
        super().__init__(f"release {release} cannot be planned ({type(cause).__name__}{place})")
        self.release = release


def _is_ours(filename: str) -> bool:
    return _PACKAGE in Path(filename).resolve().parents


def _short(filename: str) -> str:
    return str(Path(filename).resolve().relative_to(_PACKAGE))
