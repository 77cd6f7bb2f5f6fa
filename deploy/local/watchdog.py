"""Ends the services of a process that died without stopping them, so that a killed test run leaves no broker behind.

The watchdog is a second, tiny process that reads "+pid" and "-pid" lines from a pipe. The pipe ends when its owner
dies, for any reason; then the watchdog kills what is still on its list. It works from any thread of the owner, which
the kernel's parent-death signal does not.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading

_lock = threading.Lock()
_watchdog: subprocess.Popen[str] | None = None
_owner = 0


def watch(pid: int) -> None:
    """Have this child process killed when the calling process ends."""
    _tell(f"+{pid}")


def forget(pid: int) -> None:
    """The child has been reaped: its pid may soon belong to another process."""
    _tell(f"-{pid}")


def _tell(line: str) -> None:
    global _watchdog, _owner  # noqa: PLW0603 - one watchdog for each process, and a forked child needs its own
    with _lock:
        if _watchdog is None or _owner != os.getpid():
            _watchdog = subprocess.Popen(
                [sys.executable, "-S", __file__], stdin=subprocess.PIPE, text=True, start_new_session=True
            )
            _owner = os.getpid()
        assert _watchdog.stdin is not None
        print(line, file=_watchdog.stdin, flush=True)


def main() -> None:
    """Runs in the watchdog's own process."""
    watched: set[int] = set()
    for line in sys.stdin:
        (watched.add if line[0] == "+" else watched.discard)(int(line[1:]))
    for pid in watched:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
