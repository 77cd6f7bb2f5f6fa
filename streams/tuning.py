"""What the interpreter is told about the kind of work a worker does."""

import gc
import sys


def tune() -> None:
    """Call once, at the start of a process that ingests or plans."""
    # A release is planned in a thread; the event loop, and with it every heartbeat, gets its turn ten times as often.
    sys.setswitchinterval(0.0005)
    # Ingest makes and drops a dozen objects an event, none in a cycle; looking for cycles every 700 of them is in vain.
    gc.set_threshold(200_000, 20, 100)
