"""What the worker says about itself over HTTP: `/health`, whether it is alive, `/ready`, whether it can work,
`/metrics`, everything that Prometheus may want to know, `/schemas`, what its topics hold, and `/`, a page for people.

`/ready` counts ingest and, in the worker that plans, the planner. A rebalance is ordinary work, and a worker in the
middle of one is ready; one that never ends is not. `state` says which of the two it is, and `reason` what is wrong.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import faust
from aiohttp.web import Response

from shoal.core.policy.policy import Policy
from shoal.streams.intake.ingest import Ingest
from shoal.streams.intake.watch import Course
from shoal.streams.prometheus import State
from shoal.streams.settings import Settings
from shoal.streams.store.connection import RedisError
from shoal.streams.store.store import Store
from shoal.streams.worker.exposition import CONTENT_TYPE, Exposition
from shoal.streams.worker.owners import Owners
from shoal.streams.worker.page import Page, add_page
from shoal.streams.worker.planner import Planner
from shoal.streams.worker.schema_views import add_schema_views
from shoal.streams.worker.standing import Standing

_ASK_S: Final = 2.0
_BEGIN_S: Final = 120.0  # for a tenure to begin; it reads the whole state back
_STEP_S: Final = 900.0  # for one step of a release


class Verdict(NamedTuple):
    """Whether the worker can work, one word for what it is in, and a sentence where something is wrong."""

    is_ready: bool
    state: str
    reason: str | None = None


def add_views(
    app: faust.App,
    settings: Settings,
    policy: Policy,
    store: Store,
    ingest: Ingest,
    planner: Planner,
    owners: Owners | None = None,
) -> None:
    """The views. None says anything about a person."""
    add_schema_views(app)
    exposition = Exposition(app, policy.table, ingest, planner.standing, owners)
    if settings.page:
        ask = partial(readiness, store, ingest, planner, owners)
        add_page(app, Page(settings.kafka_servers, policy, ingest, planner.standing, ask))

    @app.page("/health", name="health")
    async def health(view: Any, _request: Any) -> Any:
        return view.json({"status": "alive"})

    @app.page("/ready", name="ready")
    async def ready(view: Any, _request: Any) -> Any:
        found = await readiness(store, ingest, planner, owners)
        return view.json(found, status=200 if found["ready"] else 503)

    @app.page("/metrics", name="metrics")
    async def metrics(_view: Any, _request: Any) -> Any:
        return Response(body=exposition.write(), headers={"Content-Type": CONTENT_TYPE})


async def readiness(store: Store, ingest: Ingest, planner: Planner, owners: Owners | None = None) -> Mapping[str, Any]:
    """The answer of `/ready`; every metric of streams/metrics.py is in it, and every shard, if there are several."""
    has_redis, published = True, None
    try:
        published = await asyncio.wait_for(store.published(), _ASK_S)
    except (TimeoutError, RedisError, OSError):
        has_redis = False
    course, standing = ingest.course, planner.standing
    verdict = judge(course, standing, ingest.trouble, has_redis=has_redis, has_table=published is not None)
    if verdict.is_ready and owners is not None and owners.failures:
        verdict = Verdict(False, "stuck", "; ".join(why for _, why in sorted(owners.failures.items())))
    return {
        "ready": verdict.is_ready,
        "state": verdict.state,
        "reason": verdict.reason,
        "redis": has_redis,
        "kafka": course in (Course.RUNNING, Course.REBALANCING),
        "role": "planner" if planner.is_owner else "ingest",
        "ingest": course.value,
        "planner": standing.state.value,
        "step": standing.step,
        "partitions": ingest.owned,
        "release": None if published is None else published.sent,
        **ingest.metrics().as_dict(),
        **({} if owners is None else _of_shards(owners)),
        **({} if standing.note is None else {"note": standing.note}),
    }


def _of_shards(owners: Owners) -> dict[str, Any]:
    """Where every shard is, how many people it has and why it fails, if it does, and which are this worker's."""
    return {
        "shards": {str(shard): word for shard, word in owners.words.items()},
        "owned_shards": owners.owned,
        "shard_people": {str(shard): people for shard, people in owners.people.items()},
        "shard_failures": {str(shard): why for shard, why in owners.failures.items()},
    }


def judge(
    course: Course, standing: Standing, trouble: str | None = None, *, has_redis: bool, has_table: bool
) -> Verdict:
    """Whether a worker can work. What is wrong with a service comes before what follows from it; `trouble` is what
    ingest knows of it.
    """
    if not has_redis:
        return Verdict(False, "stuck", "Redis does not answer")
    if not has_table:
        return Verdict(False, "stuck", "Redis does not know the table any more")
    if course is Course.SILENT:
        return Verdict(False, "stuck", "Kafka does not answer")
    if course is Course.STUCK:
        slow = "ingest has not moved for far longer than a rebalance or a batch takes"
        return Verdict(False, "stuck", trouble or slow)
    if course is Course.STARTING:
        return Verdict(False, "starting")
    if standing.state is State.STUCK:
        return Verdict(False, "stuck", standing.why)
    if standing.seconds > (_STEP_S if standing.state is State.RELEASING else _BEGIN_S):
        if standing.state is State.RELEASING:
            return Verdict(False, "stuck", f"the release has been in its step `{standing.step}` for far too long")
        if standing.state in (State.STARTING, State.RETRYING):
            return Verdict(False, "stuck", f"the planner does not get to work ({standing.why or 'starting'})")
    return Verdict(True, "rebalancing" if course is Course.REBALANCING else "ready")
