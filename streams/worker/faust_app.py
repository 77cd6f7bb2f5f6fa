"""The Faust app: its consumer group decides which worker plans, its agent receives the triggers, its web server
serves the views.
"""

from typing import Any

import faust
from aiokafka import TopicPartition

from shoal.core.policy.policy import Policy
from shoal.streams.kafka.access import faust_options
from shoal.streams.kafka.topics import METADATA_MAX_AGE_MS, Topics
from shoal.streams.settings import Settings
from shoal.streams.worker.planner import Planner
from shoal.streams.worker.trigger import Trigger


class _App(faust.App):
    """A Faust app that creates no folders: nothing is kept on this machine."""

    def _create_directories(self) -> None:
        pass


def make_app(settings: Settings, policy: Policy, planner: Planner) -> faust.App:
    """The app of one worker. It owns the triggers partition if `planner` does, and hands triggers to it."""
    topics = Topics(policy.table)
    session_s = settings.session_s
    app = _App(
        topics.trigger_group,
        env={},  # else Faust lets variables like BROKER_URL or WEB_PORT override these settings
        **faust_options(settings.kafka_servers),
        broker_session_timeout=session_s,
        broker_heartbeat_interval=session_s / 4,
        broker_rebalance_timeout=max(session_s, 10.0),
        broker_request_timeout=max(30.0, session_s + 5.0),
        broker_max_poll_interval=86_400.0,  # a trigger is handled when its release is applied
        broker_commit_livelock_soft_timeout=86_400.0,
        stream_processing_timeout=86_400.0,
        topic_allow_declare=False,
        topic_disable_leader=True,
        table_standby_replicas=0,
        consumer_auto_offset_reset="earliest",
        consumer_metadata_max_age_ms=METADATA_MAX_AGE_MS,
        stream_wait_empty=False,
        stream_ack_cancelled_tasks=False,
        stream_ack_exceptions=False,
        key_serializer="raw",
        value_serializer="raw",
        store="memory://",
        web_enabled=settings.web_port != 0,
        web_bind=settings.web_bind,
        web_port=settings.web_port or 6066,
        web_stats_enabled=False,
        web_graph_enabled=False,
        web_router_enabled=False,
        web_tables_enabled=False,
        web_metrics_enabled=False,
    )
    requests = app.topic(topics.triggers, key_type=bytes, value_type=bytes)
    ours = TopicPartition(topics.triggers, 0)

    @app.agent(requests, name="triggers")
    async def receive(stream: Any) -> None:
        async for event in stream.events():
            message = event.message
            if message.partition == ours.partition:
                await planner.take(Trigger(message.offset, message.value, message.headers or ()))

    @app.on_partitions_assigned.connect
    async def on_assigned(_app: Any, assigned: Any, **_: Any) -> None:
        planner.own(is_owner=any((tp.topic, tp.partition) == (ours.topic, ours.partition) for tp in assigned))

    # A Faust signal has only weak references to its handlers.
    app.shoal_handlers = (receive, on_assigned)
    return app
