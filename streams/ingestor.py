"""A process that does nothing but ingest, started by the worker: `python -m streams.ingestor PARTITIONS`.

It is a member of the ingest group like any other, and owns what it owns by its own tokens; the worker needs it for
nothing but its processor. It says on standard output, a line of JSON at a time, how it is getting on, and at the end
what it could not go on after. It stops when standard input ends, which also happens when the worker dies.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from core.policy import Policy
from streams.errors import StreamsError
from streams.ingest import Ingest
from streams.log import configure_log
from streams.policyfile import load_policy
from streams.seal import make_seal
from streams.settings import Settings, load_settings
from streams.store import LostError, Store
from streams.tuning import tune

_REPORT_S = 0.5
_STOP_S = 3.0


def main() -> int:
    """Run until the worker wants no more; the exit code is for onlookers, the worker reads the last line."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to everyone in the terminal; the worker decides
    settings = load_settings(dotenv=Path(os.devnull), required=["policy"])
    configure_log(settings.log_format, settings.log_level)
    tune()
    policy = load_policy(settings.policy_path)
    store = Store(settings.redis, policy.table, make_seal(settings.state_key_bytes))
    return asyncio.run(_run(settings, policy, store, int(sys.argv[1])))


async def _run(settings: Settings, policy: Policy, store: Store, partitions: int) -> int:
    outcome: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    def end(error: BaseException | None = None) -> None:
        if not outcome.done():
            outcome.set_result(error)

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    await _watch_input(end)
    ingest = Ingest(settings, policy, store, partitions, end)
    await ingest.start()
    try:
        while not outcome.done():
            _say({"held": ingest.held, "is_settled": ingest.is_settled, "lag": ingest.lag(),
                  "accepted": ingest.accepted, "rejected": ingest.rejected})  # fmt: skip
            await asyncio.wait({outcome}, timeout=_REPORT_S)
    finally:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ingest.stop(), _STOP_S)
        await store.close()
    error = outcome.result()
    if error is None:
        return 0
    _say({"failed": _describe(error)})
    return 1


async def _watch_input(end: Any) -> None:
    """Call `end` when the worker closes our standard input, or is no more."""

    class Watch(asyncio.Protocol):
        def connection_lost(self, _error: Exception | None) -> None:
            end()

        def eof_received(self) -> None:
            end()

    await asyncio.get_running_loop().connect_read_pipe(Watch, sys.stdin)


def _describe(error: BaseException) -> dict[str, Any]:
    """An error as the worker can tell it on: never its text unless it is written for an operator."""
    if isinstance(error, StreamsError):
        return {"code": error.exit_code, "message": str(error)}
    return {"lost": isinstance(error, LostError), "kind": type(error).__name__}


def _say(what: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the worker is gone: so are we, in a moment
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
