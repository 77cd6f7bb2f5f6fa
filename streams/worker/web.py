"""What the worker says about itself over HTTP: `/health`, whether it is alive, and `/ready`, whether it can do its
work.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import faust
from redis.exceptions import RedisError

from shoal.streams.intake.ingest import Ingest
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
    """What `/ready` answers."""
    try:
        found = await asyncio.wait_for(store.redis.hmget(store.key("meta"), ["release", "sent"]), _ASK_S)
    except (TimeoutError, RedisError, OSError):
        found = None
    has_state = found is not None and found[0] is not None
    return {
        "ready": has_state and ingest.is_settled,
        "redis": found is not None,
        "kafka": ingest.is_settled,
        "role": "planner" if planner.is_owner else "ingest",
        "partitions": ingest.held,
        "release": int(found[1]) if has_state and found is not None else None,
        "lag": ingest.lag(),
        "accepted": ingest.accepted,
        "rejected": ingest.rejected,
    }
