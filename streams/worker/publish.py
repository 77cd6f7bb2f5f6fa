"""Publishing a sealed release, and refusing to when Redis and the releases topic contradict each other.

Fail closed (docs/design.md, "G6 One truth"). The topic says what the world has seen, Redis what was decided and
charged. Redis may be one release ahead of the topic, sealed and not yet sent. Any other difference means that one of
the two has lost something. Nothing may be published until it is back: otherwise a number already seen would get a
second content, or a ledger already charged would be charged from the start.
"""

import json
from collections.abc import Sequence
from hashlib import sha256

from shoal.core.parts import PartPlan
from shoal.core.published.manifest import Manifest
from shoal.streams.errors import GuaranteeError
from shoal.streams.kafka.manifest import ManifestRecord, manifest_headers
from shoal.streams.kafka.release_search import last_committed
from shoal.streams.kafka.sealed import last_announced, sealed_message
from shoal.streams.kafka.topics import Topics
from shoal.streams.kafka.transaction import Message, Transaction
from shoal.streams.store.meta import TableMeta
from shoal.streams.store.staging import SealedRelease

_TRANSACTION_S = 300.0  # a large release takes a while; the next owner's start ends an open transaction at once


class Publisher:
    """The right to publish a table's releases: a transactional id, whose last owner alone can commit."""

    def __init__(self, servers: list[str], table: str, shards: int = 1) -> None:
        self._servers, self._table, self._shards = servers, table, shards
        self._topics = Topics(table)
        self._transaction = Transaction(servers, self._topics.publisher, _TRANSACTION_S)

    async def start(self) -> None:
        """Take ownership: the former owner's open transaction is aborted. Raises KafkaError.

        With shards, so is that of the first shard's owner, which would hide manifests behind it. An owner that is alive
        begins a new one.
        """
        await self._transaction.start()
        if self._shards > 1:
            first = Transaction(self._servers, self._topics.parts_producer(0))
            try:
                await first.start()
            finally:
                await first.stop()

    async def last(self) -> ManifestRecord | None:
        """The last release on the topic. After `start`, no other publisher can add one."""
        return await last_committed(self._servers, self._table, patient=True)

    async def last_announced(self) -> ManifestRecord | None:
        """The last `sealed` record on the topic; likewise. With one shard nothing is announced."""
        if self._shards == 1:
            return None
        return await last_announced(self._servers, self._table, patient=True)

    async def announce(self, sealed: SealedRelease) -> None:
        """Step 6: the `sealed` record. Raises FencedError, KafkaError."""
        message = sealed_message(self._table, sealed.number, sealed.manifest, sealed.headers)
        await self._transaction.send(self._topics.releases, 0, [message], crash="release.6.open")

    async def publish(self, sealed: SealedRelease, records: Sequence[bytes] = ()) -> ManifestRecord:
        """Step 8: the manifest, behind the records of a table with one shard, in one transaction; returns it as it
        stands on the topic.

        Raises FencedError, KafkaError.
        """
        key = f"{self._table}/{sealed.number}".encode()
        headers = manifest_headers(self._table, sealed.number, sealed.headers)
        messages = [*(Message(key, record) for record in records), Message(key, sealed.manifest, headers)]
        end = await self._transaction.send(self._topics.releases, 0, messages, crash="release.8.open")
        return ManifestRecord(sealed.number, Manifest(sealed.manifest), dict(headers), end - 1)

    async def stop(self) -> None:
        await self._transaction.stop()


def check_story(table: str, meta: TableMeta | None, last: ManifestRecord | None) -> None:
    """Raises GuaranteeError unless Redis and the topic end at the same release, or Redis is one sealed release ahead.

    `meta` must have been read before `last`, or by the planner: a release may come in between.
    """
    seen = 0 if last is None else last.number
    rebuild = "nothing is published until `shoal rebuild` has brought it back"
    if meta is None and seen == 0:
        return  # a table that is about to begin
    if meta is None or meta.release < seen:
        known = "nothing" if meta is None else f"only release {meta.release}"
        other = "if SHOAL_REDIS names the right one, " if meta is None else ""
        raise GuaranteeError(f"Redis knows {known} of table {table}, and release {seen} is published: {other}{rebuild}")
    if meta.release == seen:
        if last is not None and last.head.digest != meta.manifest:
            raise GuaranteeError(
                f"Redis and the releases topic have different contents for release {seen} of table {table}: {rebuild}"
            )
        return
    if meta.sent != seen or meta.release != seen + 1:
        raise GuaranteeError(
            f"topic {Topics(table).releases} ends at release {seen}, and release {meta.sent} of table {table} was "
            "published: its records must be kept for ever, and nothing is published until they are back"
        )


def check_sealed(table: str, sealed: SealedRelease, last: ManifestRecord | None) -> None:
    """Raises GuaranteeError unless a sealed manifest follows from the last one on the topic."""
    seen = None if last is None else last.head.digest
    if seen != json.loads(sealed.manifest)["previous"]:
        raise GuaranteeError(
            f"the sealed release of table {table} does not follow from the last one published: "
            "nothing is published until `shoal rebuild` has brought the state back"
        )


def check_announced(
    table: str, meta: TableMeta, last: ManifestRecord | None, announced: ManifestRecord | None
) -> ManifestRecord | None:
    """The release that is announced and that Redis does not know of, if there is one; it is the next.

    Raises GuaranteeError if another one is announced, or one with another content than Redis has sealed.
    """
    seen = 0 if last is None else last.number
    if announced is None or announced.number <= seen:
        return None
    if announced.number == meta.release:
        if sha256(announced.value).hexdigest() != meta.manifest:
            raise GuaranteeError(
                f"Redis has sealed another content for release {meta.release} of table {table} than was announced: "
                "nothing is published until `shoal rebuild` has brought the state back"
            )
        return None
    if announced.number != meta.release + 1:
        raise GuaranteeError(
            f"release {announced.number} of table {table} is announced, and Redis knows only release {meta.release}: "
            "nothing is published until `shoal rebuild` has brought it back"
        )
    return announced


def check_part(table: str, shard: int, made: PartPlan, manifest: bytes) -> None:
    """Raises GuaranteeError unless a part is the one that a sealed manifest names."""
    meaning, part = json.loads(manifest), made.summary.part
    if part is None:
        is_same = made.summary.content == meaning["content"]
    else:
        told = {one["shard"]: one for one in meaning["shards"]}.get(part.shard)
        is_same = not made.records if told is None else json.loads(part.json()) == told
    if not is_same:
        raise GuaranteeError(
            f"shard {shard} of release {meaning['release']} of table {table} does not come out as it was sealed: "
            "nothing of it is published until `shoal rebuild` has brought the state back"
        )
