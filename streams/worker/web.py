"""What the worker says about itself over HTTP: `/health`, whether it is alive, and `/ready`, whether it can work."""

import asyncio
from collections.abc import Mapping
from typing import Any

import faust

from shoal.streams.intake.ingest import Ingest
from shoal.streams.store.connection import RedisError
from shoal.streams.store.store import Store
from shoal.streams.worker.planner import Planner

_ASK_S = 2.0


def add_views(app: faust.App, store: Store, ingest: Ingest, planner: Planner) -> None:
    """The two views. Neither says anything about people."""

    @app.page("/health", name="health")
    async def health(view: Any, _request: Any) -> Any:
        return view.json({"status": "alive"})

    @app.page("/ready", name="ready")
    async def ready(view: Any, _request: Any) -> Any:
        found = await readiness(store, ingest, planner)
        return view.json(found, status=200 if found["ready"] else 503)


async def readiness(store: Store, ingest: Ingest, planner: Planner) -> Mapping[str, Any]:
    """The answer of `/ready`; every metric of streams/metrics.py is in it."""
    has_redis, published = True, None
    try:
        published = await asyncio.wait_for(store.published(), _ASK_S)
    except (TimeoutError, RedisError, OSError):
        has_redis = False
    return {
        "ready": published is not None and ingest.is_loaded and not planner.condition.is_stuck,
        "redis": has_redis,
        "kafka": ingest.is_loaded,
        "role": "planner" if planner.is_owner else "ingest",
        "planner": planner.condition.state,
        "reason": planner.condition.reason,
        "partitions": ingest.owned,
        "release": None if published is None else published.sent,
        **ingest.metrics().as_dict(),
    }
