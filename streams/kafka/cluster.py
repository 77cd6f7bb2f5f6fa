"""What the brokers say of topics: whether they exist, how they are laid out, and what this client may do with them.

aiokafka's own request stops at version 5 of Kafka's Metadata; version 10 (Kafka 2.8) also names the operations that the
client is allowed, and each topic's id, which changes when a topic is deleted and made again. An older broker is
believed.
"""

from io import BytesIO
from typing import Any, NamedTuple

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.metadata import MetadataRequest_v5
from aiokafka.protocol.types import (
    AbstractType,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

NO_ERROR, UNKNOWN_TOPIC, TOPIC_REFUSED = 0, 3, 29
_NOT_ASKED = -(2**31)
_METADATA = 3


class TopicFacts(NamedTuple):
    """One topic. `allowed` are the numbers of Kafka's operations, None where the broker does not say."""

    error: int
    partitions: int
    replicas: int  # the fewest that a partition has
    allowed: frozenset[int] | None
    id: str  # empty where the broker does not say, or there is no such topic


class Cluster(NamedTuple):
    """The topics asked for, and how many brokers there are."""

    topics: dict[str, TopicFacts]
    brokers: int


class _Uuid(AbstractType[bytes]):
    """Sixteen bytes, none of them set where there is no id."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(16)


_NO_ID = bytes(16)
_TAGS = ("tags", TaggedFields)


class _MetadataResponse(Response):
    API_KEY, API_VERSION = _METADATA, 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32), ("host", CompactString()), ("port", Int32), ("rack", CompactString()), _TAGS
            ),
        ),
        ("cluster_id", CompactString()),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("topic", CompactString()),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        _TAGS,
                    ),
                ),
                ("authorized_operations", Int32),
                _TAGS,
            ),
        ),
        ("authorized_operations", Int32),
        _TAGS,
    )


class _MetadataRequest_v10(RequestStruct):  # noqa: N801 - as aiokafka names its own
    API_KEY, API_VERSION, RESPONSE_TYPE, FLEXIBLE_VERSION = _METADATA, 10, _MetadataResponse, True
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", _Uuid), ("name", CompactString()), _TAGS)),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        _TAGS,
    )


class _MetadataRequest(Request[MetadataRequest_v5 | _MetadataRequest_v10]):
    """Asks about topics by name and, unlike aiokafka's, never has the broker create one."""

    API_KEY = _METADATA

    def __init__(self, topics: list[str]) -> None:
        self._topics = topics

    def build(self, request_struct_class: Any) -> Any:
        if request_struct_class is _MetadataRequest_v10:
            return request_struct_class([(_NO_ID, name, {}) for name in self._topics], False, False, True, {})
        return request_struct_class(self._topics, False)


async def describe(admin: AIOKafkaAdminClient, names: list[str]) -> Cluster:
    """Ask a broker about these topics. Raises KafkaError."""
    answer = (await admin._send_request(_MetadataRequest(names))).to_object()
    topics = {}
    for topic in answer["topics"]:
        layout = topic["partitions"]
        topics[topic["topic"]] = TopicFacts(
            topic["error_code"],
            len(layout),
            min((len(partition["replicas"]) for partition in layout), default=0),
            _operations(topic.get("authorized_operations", _NOT_ASKED)),
            topic.get("topic_id", _NO_ID).lstrip(b"\0").hex(),
        )
    return Cluster(topics, len(answer["brokers"]))


def _operations(bits: int) -> frozenset[int] | None:
    return None if bits == _NOT_ASKED else frozenset(number for number in range(31) if bits >> number & 1)
