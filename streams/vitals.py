"""What `shoal source` and `shoal sink` serve over HTTP if they have a port: `/health`, `/ready` and `/metrics`.

A number's labels are the table and words of Shoal's own, as in streams/prometheus.py. Nothing about a person becomes
one. The numbers are counted once a batch or once a release.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector
from prometheus_client.exposition import generate_latest

from shoal.core.events.event import Reason
from shoal.streams.errors import InputError
from shoal.streams.settings import Settings

_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
STARTING, READY, RETRYING = "starting", "ready", "retrying"


class Vitals:
    """The state of one process, and its numbers, whose names begin with `shoal_<what>_`."""

    def __init__(self, what: str, table: str) -> None:
        self._what, self._table = what, table
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._state, self._reason = STARTING, ""
        self._ready = self._gauge("ready", "1 while it does its work, else 0.")

    def say(self, state: str, reason: str = "") -> None:
        """Note what it is doing and, if it is not ready, why."""
        self._state, self._reason = state, reason
        self._ready.set(state == READY)

    def ready(self) -> dict[str, object]:
        """The answer of `/ready`."""
        return {"ready": self._state == READY, "state": self._state, "reason": self._reason or None}

    def metrics(self) -> bytes:
        """The answer of `/metrics`."""
        return generate_latest(self._registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"shoal_{self._what}_{name}", text, ["table"], registry=self._registry).labels(self._table)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"shoal_{self._what}_{name}", text, ["table"], registry=self._registry).labels(self._table)


class SourceVitals(Vitals):
    """The numbers of a source."""

    def __init__(self, table: str) -> None:
        super().__init__("source", table)
        self._records = self._counter("records", "Records that were read from the captured topics.")
        self._events = self._counter("events", "Events that were written.")
        self._rejects = Counter(
            "shoal_source_rejects",
            "Records that became dead letters, by reason.",
            ["table", "reason"],
            registry=self._registry,
        )
        # From the start and not from the first of its kind, or Prometheus would not see that one as an increase.
        for reason in Reason:
            self._rejects.labels(table, str(reason))
        self._restarts = self._counter("restarts", "How often it began again because a service failed it.")
        self._lag = self._gauge("lag_records", "Records on the captured topics that are still to be read.")

    def batch(self, records: int, events: int, reasons: Collection[Reason]) -> None:
        """Count a batch that is committed."""
        self._records.inc(records)
        self._events.inc(events)
        for reason in reasons:
            self._rejects.labels(self._table, str(reason)).inc()

    def behind(self, records: int) -> None:
        """Note how much is still to be read."""
        self._lag.set(records)

    def again(self, error: str) -> None:
        """Note that it begins again, and the name of the error."""
        self._restarts.inc()
        self.say(RETRYING, f"it begins again after {error}")


class SinkVitals(Vitals):
    """The numbers of a sink."""

    def __init__(self, table: str) -> None:
        super().__init__("sink", table)
        self._release = self._gauge("release_number", "The release that the target holds, 0 without one.")
        self._kept = self._counter("releases", "Releases that were written to the target.")

    def holds(self, number: int) -> None:
        """Note what the target holds as the sink starts, and that it follows the topic from now on."""
        self._release.set(number)
        self.say(READY)

    def kept(self, number: int) -> None:
        """Count a release that is written."""
        self._kept.inc()
        self._release.set(number)


@asynccontextmanager
async def serving(vitals: Vitals, settings: Settings, port: int | None) -> AsyncIterator[None]:
    """Answer on SHOAL_WEB_BIND while the block runs, if there is a port. Raises InputError if it is taken."""
    if port is None:
        yield
        return
    runner = web.AppRunner(_app(vitals), access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, settings.web_bind, port).start()
        except OSError:
            raise _taken(settings.web_bind, port, "--web-port") from None
        yield
    finally:
        await asyncio.shield(runner.cleanup())


def check_port(settings: Settings) -> None:
    """Raises InputError if the worker's port is taken: Faust would say only that some address is."""
    if settings.web_port:
        try:
            socket.create_server((settings.web_bind, settings.web_port)).close()
        except OSError:
            raise _taken(settings.web_bind, settings.web_port, "SHOAL_WEB_PORT") from None


def _taken(bind: str, port: int, option: str) -> InputError:
    return InputError(f"port {port} of {bind} is taken: choose another one with {option}")


def _app(vitals: Vitals) -> web.Application:
    async def health(_request: web.Request) -> web.Response:
        return web.json_response({"status": "alive"})

    async def ready(_request: web.Request) -> web.Response:
        found = vitals.ready()
        return web.json_response(found, status=200 if found["ready"] else 503)

    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(body=vitals.metrics(), headers={"Content-Type": _CONTENT_TYPE})

    app = web.Application()
    app.add_routes([web.get("/health", health), web.get("/ready", ready), web.get("/metrics", metrics)])
    return app
