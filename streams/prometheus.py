"""Every number that a worker shows Prometheus, under `/metrics`, by name.

A label's value is a partition's number or a word from one of the lists here, never a text that came with a record, so
that nothing about a person can become one; `word` sees to it. A number is counted where the thing happens, once a batch
or once a step, never once an event: the price of being seen does not grow with the events. What can be read at any time
(lag, the size of a window, the state of the planner) is not counted at all, but looked up when Prometheus asks
(worker/exposition.py).
"""

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

from shoal.core.events.event import Reason

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter, with the time of its birth

REGISTRY: Final = CollectorRegistry()

SOURCES: Final = ("events", "triggers", "external")
REASONS: Final = tuple(str(reason) for reason in Reason)
OUTCOMES: Final = ("accepted", "rejected")
STEPS: Final = ("wait", "gather", "plan", "seal", "announce", "parts", "manifest", "apply", "finish")
"""Steps 2 to 10 of a release (docs/protocol.md). With one shard nothing is gathered, announced or sent in parts."""
SERVICES: Final = ("kafka", "redis")
PARTS: Final = ("ingest", "planner", "deadletter", "shards")
SNAPSHOT_OUTCOMES: Final = ("written", "failed")
REQUESTS: Final = ("transaction", "group-commit")
OTHER: Final = "other"


class State(StrEnum):
    """What the planner is doing."""

    ELSEWHERE = "elsewhere"  # another worker plans
    STARTING = "starting"
    WAITING = "waiting"  # for a trigger
    RELEASING = "releasing"
    RETRYING = "retrying"  # a service failed it
    STUCK = "stuck"  # the next release cannot be made


def word(value: str, words: Collection[str]) -> str:
    """A label's value: `value` if it is one of `words`, else "other"."""
    return value if value in words else OTHER


_SHORT_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_LONG_S: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)

# -- ingest -----------------------------------------------------------------------------------------------------------

EVENTS: Final = Counter(
    "shoal_events",
    "Events taken from the events topic, by partition and by what became of them.",
    ["partition", "outcome"],
    registry=REGISTRY,
)
REJECTS: Final = Counter(
    "shoal_rejects",
    "Records that became dead letters, by the topic they came from and by reason.",
    ["source", "reason"],
    registry=REGISTRY,
)
REBALANCES: Final = Counter(
    "shoal_rebalances", "How often the events partitions were handed out anew to this worker.", registry=REGISTRY
)

# -- releases ---------------------------------------------------------------------------------------------------------

STEP_SECONDS: Final = Histogram(
    "shoal_release_step_seconds",
    "Seconds of each finished step of a release.",
    ["step"],
    buckets=_LONG_S,
    registry=REGISTRY,
)

SNAPSHOTS: Final = Counter(
    "shoal_snapshots", "Snapshots that the policy wanted, by what became of them.", ["outcome"], registry=REGISTRY
)
for _outcome in SNAPSHOT_OUTCOMES:
    SNAPSHOTS.labels(_outcome)

# -- services ---------------------------------------------------------------------------------------------------------

REDIS_SECONDS: Final = Histogram(
    "shoal_redis_seconds",
    "Seconds until Redis answered a script, by the script's name.",
    ["script"],
    buckets=_SHORT_S,
    registry=REGISTRY,
)
KAFKA_SECONDS: Final = Histogram(
    "shoal_kafka_seconds",
    "Seconds until Kafka answered: a whole transaction, or a commit of the group's offsets.",
    ["request"],
    buckets=_SHORT_S,
    registry=REGISTRY,
)
RECONNECTS: Final = Counter(
    "shoal_reconnects",
    "How often a part of the worker began again because a service failed it.",
    ["service", "part"],
    registry=REGISTRY,
)
# From the start and not from the first failure, or Prometheus would not see that one as an increase.
for _service in SERVICES:
    for _part in PARTS:
        RECONNECTS.labels(_service, _part)
