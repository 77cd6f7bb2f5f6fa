"""The worker's log: an event name and fields from an allow-list, so that nothing about a person can slip in.

A field that is not on the list is left out and counted. Exceptions are named, never printed: their text may quote an
event. A library's warning is reduced to the library's name and its text without arguments.
"""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from shoal.streams.metrics import METRICS

FIELDS = frozenset(
    {
        # what structlog adds
        "event", "level", "timestamp",
        # where
        "table", "topic", "partition", "partitions", "offset", "role", "kafka", "redis", "port", "step", "pid",
        "shard", "shards",
        # how many, how long
        *METRICS, "people", "groups", "nodes", "records", "bytes", "chunks", "rejects", "seconds",
        "attempt", "misrouted", "events", "rows", "withheld", "removed", "version",
        # which release
        "release", "engine", "policy", "trigger", "reason", "max_breach", "bound", "cause", "at",
        # third parties
        "library", "template", "error", "setting",
    }
)  # fmt: skip

Event = MutableMapping[str, Any]
_REPEAT_S = 10.0


def configure_log(log_format: str = "text", level: str = "info", *, debug: bool = False) -> None:
    """Send Shoal's own events and the libraries' warnings to standard error, one line each."""
    numeric = logging.DEBUG if debug else getattr(logging, level.upper())
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=24)
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            keep_allowed,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    root.handlers[:] = [LibraryHandler()]
    root.setLevel(logging.WARNING)
    for noisy in ("aiokafka", "faust", "mode", "asyncio", "aiohttp"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # A rebalance is ordinary, and Shoal logs it itself; aiokafka reports it as a failed heartbeat.
    logging.getLogger("aiokafka.consumer.group_coordinator").setLevel(logging.ERROR)
    logging.captureWarnings(True)
    logging.getLogger("py.warnings").setLevel(logging.CRITICAL)


def get_log(**fields: Any) -> Any:
    """A logger with these fields on every event."""
    return structlog.get_logger(**fields)


def keep_allowed(_logger: Any, _method: str, event: Event) -> Event:
    """A structlog processor that removes every field that is not on the list."""
    extra = [name for name in event if name not in FIELDS]
    for name in extra:
        del event[name]
    if extra:
        event["removed"] = len(extra)
    return event


class LibraryHandler(logging.Handler):
    """Passes on the library's name and the text of its warning, without arguments: they may quote events.

    A client whose service is away repeats a warning many times a second; it is passed on once in ten seconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[str, str], float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        template = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
        if not record.args:  # it may have been formatted already: keep the words before the first value
            template = re.split(r"['\"{\[(:=<]", template, maxsplit=1)[0].rstrip()
        what = (record.name, template)
        if record.created - self._said.get(what, 0.0) < _REPEAT_S:
            return
        self._said[what] = record.created
        error = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        fields = {"library": record.name, "template": template.split("\n", 1)[0][:200]}
        if error:
            fields["error"] = error
        structlog.get_logger().warning("library.warned", **fields)
