"""Who else works on a table, and whether they work on the same state.

The consumer groups of a table have fixed names. Two sets of workers with two Redises, one of them by mistake, would
share the partitions between them. Neither would ever have a whole window: nothing wrong is published, but nothing at
all. So every worker joins the ingest group under a name made from the state it works on, and looks at the others'.
"""

import asyncio
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient

from shoal.streams.errors import InputError
from shoal.streams.kafka.topics import Topics, admin_client
from shoal.streams.settings import Settings

_PREFIX: Final = "shoal-"
_LOOK_S: Final = 0.5


def state_name(created_s: float) -> str:
    """The client id of workers on the state that was created at this moment. No two of a table are equally old."""
    return _PREFIX + blake2b(repr(created_s).encode(), digest_size=6).hexdigest()


async def check_companions(settings: Settings, table: str, ours: str, within_s: float = 0.0) -> None:
    """Raises InputError if workers on another state of this table are at work and still are after `within_s`.

    A worker that was killed is a member for one session more. Raises KafkaError, ServiceError.
    """
    if settings.embedded:
        return  # it is the demo's own, and its broker does not say
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    async with admin_client(settings.kafka_servers, settings.connect_s) as admin:
        while hosts := await _strangers(admin, Topics(table).ingest_group, ours):
            if loop.time() >= deadline:
                raise InputError(
                    f"other workers (on {', '.join(hosts)}) read the topics of table {table} into another Redis: stop "
                    "them, or set SHOAL_REDIS to theirs"
                )
            await asyncio.sleep(_LOOK_S)


async def working_hosts(settings: Settings, table: str, within_s: float) -> list[str]:
    """The hosts of a table's workers, on whatever state; none if all that there were are gone before `within_s`."""
    loop = asyncio.get_running_loop()
    deadline, group = loop.time() + within_s, Topics(table).ingest_group
    async with admin_client(settings.kafka_servers, settings.connect_s) as admin:
        while True:
            members = _members(await admin.describe_consumer_groups([group]))
            hosts = sorted({host.lstrip("/") for _, host in members})
            if not hosts or loop.time() >= deadline:
                return hosts
            await asyncio.sleep(_LOOK_S)


async def _strangers(admin: AIOKafkaAdminClient, group: str, ours: str) -> list[str]:
    """The hosts of members that work on another state."""
    answers: list[Any] = await admin.describe_consumer_groups([group])
    return sorted({host.lstrip("/") for client, host in _members(answers) if _is_other(client, ours)})


def _members(answers: list[Any]) -> Iterator[tuple[str, str]]:
    for answer in answers:
        for found in answer.to_object()["groups"]:
            yield from ((member["client_id"], member["client_host"]) for member in found["members"])


def _is_other(client: str, ours: str) -> bool:
    return client.startswith(_PREFIX) and client != ours
