"""All records as they stand after a release of the topic, without reading the topic from its start.

The reader goes back from that release to the last ones in which each shard was full. Then it goes forward and puts them
together.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from shoal.core.measure.fold import FoldError, LookBack, parts_of
from shoal.streams.errors import GuaranteeError, InputError
from shoal.streams.kafka.chain import Chain
from shoal.streams.kafka.manifest import ManifestRecord, has_parts, read_parts
from shoal.streams.kafka.part_reader import PartReader, records_of
from shoal.streams.kafka.release_search import manifest_before


def first_offset(found: ManifestRecord, meaning: Mapping[str, Any]) -> int:
    """Where the records of a release begin on the first partition of the releases topic; the manifest before stands
    before that.

    Raises GuaranteeError if the manifest does not say how many they are.
    """
    try:
        total = [part.total for part in parts_of(meaning)]
        if not has_parts(found.headers):
            return found.offset - sum(total)
        return read_parts(found.number, found.headers, len(total))[0][0] if total and total[0] else found.offset
    except InputError as error:
        raise GuaranteeError(f"{error}.") from None
    except FoldError as error:
        raise GuaranteeError(f"{error}.") from None


async def fold_back(
    consumer: AIOKafkaConsumer, partition: TopicPartition, parts: PartReader, found: ManifestRecord, table: str
) -> Chain:
    """The chain as it stands after a release, with all of its records.

    Raises GuaranteeError if a release that is needed is missing, or not what it was; KafkaError, ServiceError.
    """
    back, needed, wanted = LookBack(), list[tuple[ManifestRecord, Mapping[str, Any]]](), found.number
    while not back.is_done:
        meaning = json.loads(found.value)
        needed.append((found, meaning))
        try:
            back.see(meaning)
        except FoldError as error:
            raise GuaranteeError(f"{error}.") from None
        if not back.is_done:
            before = await manifest_before(consumer, partition, first_offset(found, meaning))
            if before is None or before.number != found.number - 1:
                raise GuaranteeError(
                    f"release {found.number - 1} is missing, and release {wanted} holds only what changed since."
                )
            found = before
    first, meaning = needed[-1]
    chain = Chain(table, first.number - 1, meaning.get("previous"))
    for one, meaning in reversed(needed):
        chain.add(await records_of(consumer, partition, parts, one, meaning, first_offset(one, meaning)), one.value)
    assert chain.digest == sha256(needed[0][0].value).hexdigest()
    return chain
