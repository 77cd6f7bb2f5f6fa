"""Crash points: named places in the numbered steps at which a fault test can kill this process, as by `kill -9`.

SHOAL_CRASH_AT="ingest.3" kills at the first passage of that point, "ingest.3:5" at the fifth. Unset, a crash point is
one comparison with None. The points are listed in docs/protocol.md, "Crash points".
"""

import os
import signal

_passages = 0


def _parse(text: str | None) -> tuple[str | None, int]:
    if not text:
        return None, 0
    name, _, count = text.partition(":")
    return name, int(count) if count.isdecimal() and int(count) > 0 else 1


_target, _count = _parse(os.environ.get("SHOAL_CRASH_AT"))


def crash_point(name: str) -> None:
    """Kill this process if the environment names this point; otherwise do nothing."""
    if name == _target:
        _pass()


def _pass() -> None:
    global _passages  # noqa: PLW0603 - a process dies once, so it has one count
    _passages += 1
    if _passages == _count:
        os.kill(os.getpid(), signal.SIGKILL)
