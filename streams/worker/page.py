"""The page that a worker serves: what it is doing right now, and the releases of its table.

Everything on it is published, or a figure of the worker itself. The releases come from their topic, not from this
worker's memory, so every worker shows the same. Looking into a release, or measuring one, parses all of it. A separate
process does this at low priority, and ingest goes on.
"""

import asyncio
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import faust
from aiohttp.web import Response
from aiokafka.errors import KafkaError

from shoal.core.policy.policy import Policy
from shoal.streams.errors import ServiceError, StreamsError
from shoal.streams.intake.ingest import Ingest
from shoal.streams.kafka.history import History
from shoal.streams.kafka.manifest import ManifestRecord
from shoal.streams.report.metrics.metric import Request
from shoal.streams.report.page import SCRIPT, STYLE, Frame, Series, render, resource
from shoal.streams.report.series import make_metrics, stated_figures
from shoal.streams.worker.measured import Measured
from shoal.streams.worker.now import Rate, write_now
from shoal.streams.worker.standing import Standing

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_KEPT: Final = 4  # releases looked into that are remembered
_SOURCE: Final = (
    "Made from the releases topic. What takes the records of a release to say is measured while somebody looks: load "
    "the page again for more of it. `shoal audit` says whether every promise was kept."
)

Ready = Callable[[], Any]


class Live(Frame):
    """A page beside which the worker serves style, script and releases."""

    def __init__(self, now: str, known: Sequence[ManifestRecord]) -> None:
        self.now = (
            '<section aria-labelledby="right-now">\n<h2 id="right-now">This worker, right now</h2>\n'
            f'<div id="now" data-from="now">\n{now}\n</div>\n</section>'
        )
        if known:
            self.known = f' data-first="{known[0].number}" data-last="{known[-1].number}"'


class Page:
    """What is behind the page's addresses."""

    def __init__(self, servers: list[str], policy: Policy, ingest: Ingest, standing: Standing, ready: Ready) -> None:
        self._policy, self._ingest, self._standing, self._ready = policy, ingest, standing, ready
        self._history = History(servers, policy.table)
        self._metrics = make_metrics(Request(policy, None))
        self._rate = Rate()
        self._measured = Measured(policy, self._history, run_beside)
        self._looked: dict[int, bytes] = {}
        self._one_at_a_time = asyncio.Lock()

    async def whole(self) -> str:
        """The page."""
        try:
            known = await self._history.look()
        except (StreamsError, KafkaError) as error:
            known, source = (), f"The releases cannot be read now: {error}"
        else:
            source = _SOURCE
        measured = await self._measured.figures(known)
        figures = [stated_figures(one.head.told) | measured.get(one.number, {}) for one in known]
        return render(Series(self._policy, self._metrics, figures, source), Live(await self.now(), known))

    async def now(self) -> str:
        """The state of the worker, as a piece of the page."""
        return "\n".join(write_now(await self._ready(), self._ingest, self._standing, self._rate))

    async def release(self, number: int) -> bytes:
        """A release to look into, as gzipped JSON. Raises StreamsError and KafkaError."""
        async with self._one_at_a_time:
            if number not in self._looked:
                records = await self._history.records(number)
                self._looked[number] = await run_beside("shoal.streams.report.atlas", (self._policy, number, records))
                while len(self._looked) > _KEPT:
                    del self._looked[next(iter(self._looked))]
            return self._looked[number]


def add_page(app: faust.App, page: Page) -> None:
    """The page, what it needs, and the releases that can be looked into."""

    @app.page("/", name="page")
    async def whole(_view: Any, _request: Any) -> Any:
        return _answer(await page.whole(), "text/html")

    @app.page("/now", name="page-now")
    async def now(_view: Any, _request: Any) -> Any:
        return _answer(await page.now(), "text/html")

    @app.page("/releases/{number}.json", name="page-release")
    async def release(_view: Any, _request: Any, number: str) -> Any:
        if not number.isascii() or not number.isdigit() or len(number) > 9:
            return _answer("there is no such release", "text/plain", 404)
        try:
            found = await page.release(int(number))
        except (StreamsError, KafkaError) as error:
            return _answer(str(error), "text/plain", 404)
        headers = {**HEADERS, "Content-Encoding": "gzip"}
        return Response(body=found, headers=headers, content_type="application/json", charset="utf-8")

    def serve(name: str, kind: str) -> None:
        text = resource(name)

        @app.page(f"/{name}", name=name)
        async def asset(_view: Any, _request: Any) -> Any:
            return _answer(text, kind)

    serve(STYLE, "text/css")
    serve(SCRIPT, "text/javascript")


def _answer(text: str, kind: str, status: int = 200) -> Response:
    return Response(text=text, status=status, headers=HEADERS, content_type=kind, charset="utf-8")


async def run_beside(program: str, given: object) -> bytes:
    """What a program of Shoal's makes of something, in a process of its own; if this one is killed, that one ends too.

    Raises ServiceError.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", program, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        made, _ = await process.communicate(pickle.dumps(given))
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        raise ServiceError("the release could not be looked into")
    return made
