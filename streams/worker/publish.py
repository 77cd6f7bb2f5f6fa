"""Publishing a sealed release, and refusing to when Redis and the releases topic do not tell the same story.

Fail closed. The topic is the truth about what the world has seen, Redis about what was decided and charged. Redis may
be one release ahead of the topic, sealed and not yet sent. Anything else means that one of them lost something, and
nothing may be published until it is known again: a number already seen would get a second content, or a ledger
already charged would be charged from the start.
"""

import json
from collections.abc import Sequence
from hashlib import sha256

from shoal.streams.errors import GuaranteeError
from shoal.streams.kafka.partition_reader import KIND, MANIFEST, Manifest, last_manifest, open_reader
from shoal.streams.kafka.topics import Topics
from shoal.streams.kafka.transaction import Message, Transaction
from shoal.streams.store.store import TableMeta

_TRANSACTION_S = 300.0  # a large release takes a while; whoever takes over ends an open one at once


class Publisher:
    """The right to publish a table's releases: a transactional id, of which only the last holder can commit."""

    def __init__(self, servers: list[str], table: str) -> None:
        self._servers, self._table = servers, table
        self._topics = Topics(table)
        self._transaction = Transaction(servers, self._topics.publisher, _TRANSACTION_S)

    async def start(self) -> None:
        """Take over: the former holder's open transaction is aborted. Raises KafkaError."""
        await self._transaction.start()

    async def last(self) -> Manifest | None:
        """The last release on the topic. After `start`, nobody else can add one."""
        return await last_published(self._servers, self._table, patient=True)

    async def publish(
        self, number: int, records: Sequence[bytes], manifest: bytes, headers: Sequence[tuple[str, bytes]]
    ) -> None:
        """Step 7: all records of a release in one transaction, the manifest last. Raises FencedError, KafkaError."""
        key = f"{self._table}/{number}".encode()
        messages = [Message(key, record) for record in records]
        messages.append(Message(key, manifest, ((KIND, MANIFEST), *headers)))
        await self._transaction.send(self._topics.releases, 0, messages, crash="release.7.open")

    async def stop(self) -> None:
        await self._transaction.stop()


async def last_published(servers: list[str], table: str, *, patient: bool = False) -> Manifest | None:
    """The last release that anyone can read; see `last_manifest` for `patient`."""
    async with open_reader(servers) as consumer:
        return await last_manifest(consumer, Topics(table).releases, patient=patient)


def check_story(table: str, meta: TableMeta | None, last: Manifest | None) -> None:
    """Raises GuaranteeError unless Redis is where the topic is, or one sealed release ahead of it.

    `meta` must have been read before `last`, or by the only one who may seal: a release may come in between.
    """
    seen = 0 if last is None else last.number
    rebuild = "nothing is published until `shoal rebuild` has brought it back"
    if meta is None and seen == 0:
        return  # a table that is about to begin
    if meta is None or meta.release < seen:
        known = "nothing" if meta is None else f"only release {meta.release}"
        raise GuaranteeError(f"Redis knows {known} of table {table}, and release {seen} is published: {rebuild}")
    if meta.release == seen:
        if last is not None and sha256(last.value).hexdigest() != meta.manifest:
            raise GuaranteeError(
                f"Redis and the releases topic have different contents for release {seen} of table {table}: {rebuild}"
            )
        return
    if meta.sent != seen or meta.release != seen + 1:
        raise GuaranteeError(
            f"topic {Topics(table).releases} ends at release {seen}, and release {meta.sent} of table {table} was "
            "published: its records must be kept for ever, and nothing is published until they are back"
        )


def check_sealed(table: str, manifest: bytes, previous: str | None, last: Manifest | None) -> None:
    """Raises GuaranteeError unless a sealed manifest follows from the last one on the topic."""
    seen = None if last is None else sha256(last.value).hexdigest()
    if seen != previous or not manifest:
        raise GuaranteeError(
            f"the sealed release of table {table} does not follow from the last one published: "
            "nothing is published until `shoal rebuild` has brought the state back"
        )


def manifest_headers(
    offsets: Sequence[int], trigger: int, at: str | None, external: Sequence[int] = ()
) -> list[tuple[str, bytes]]:
    """What a rebuild needs to make the same release again: where its window ended in the events and the external topic,
    its trigger, the trigger's time.
    """
    headers = [("offsets", json.dumps(list(offsets), separators=(",", ":")).encode())]
    headers.append(("external", json.dumps(list(external), separators=(",", ":")).encode()))
    headers.append(("trigger", str(trigger).encode()))
    if at is not None:
        headers.append(("at", at.encode()))
    return headers
