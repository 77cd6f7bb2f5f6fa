"""The error of a release that cannot be planned. Its text says nothing about people."""

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_ADVICE: Final = (
    "find the record that stops it among those since the last release and leave it out with "
    "`shoal skip TOPIC PARTITION OFFSET`"
)
_PACKAGE: Final = Path(__file__).resolve().parents[2]


class PlanFailedError(Exception):
    """Some shards of a release cannot be planned. Never leaves the worker; its text is what they reported: the kind of
    error and the line of code, never the error's own text, which may quote an event.
    """

    def __init__(self, release: int, failed: Mapping[int, str]) -> None:
        super().__init__("; ".join(why for _, why in sorted(failed.items())))
        self.release = release

    @property
    def advice(self) -> str:
        """The sentence, with what an operator is told to do."""
        return str(self) if "shoal skip" in str(self) else f"{self}: {_ADVICE}"


def why_not(release: int, cause: BaseException, done: str = "planned") -> str:
    """The kind of error and the line of code, never what the error says."""
    frames = [frame for frame in traceback.extract_tb(cause.__traceback__) if _is_ours(frame.filename)]
    place = f" at {_short(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return f"release {release} cannot be {done} ({type(cause).__name__}{place})"


def _is_ours(filename: str) -> bool:
    return _PACKAGE in Path(filename).resolve().parents


def _short(filename: str) -> str:
    return str(Path(filename).resolve().relative_to(_PACKAGE))
