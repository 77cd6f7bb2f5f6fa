"""Changes of policy, as the planner and a rebuild make them.

The request is a record on the triggers topic, with both policies in it. The planner freezes a release for it as for any
other request. Ingest stops at its barrier: what comes after it is for workers that run under the new policy. With the
seal the table has the new policy, and every worker under the old one ends.
"""

from aiokafka import TopicPartition

from shoal.core.events.event import ChangeRequest, Reason, Reject, is_before
from shoal.core.policy.difference import differences
from shoal.core.policy.meaning import meaning_of
from shoal.core.policy.policy import Policy
from shoal.streams.files.policy_record import unpack_policy
from shoal.streams.intake.formats import EventReader
from shoal.streams.kafka.partition_reader import open_reader, read_oldest, read_to_end
from shoal.streams.kafka.topics import Topics
from shoal.streams.store.release_log import DisturbedError
from shoal.streams.worker.trigger import Trigger, read_trigger


def judge_change(asked: ChangeRequest, policy: Policy, digest: str, last_at: str | None) -> Policy | Reject:
    """The policy that is to take the place of `policy`, or why not; manifests name `digest` so far."""
    if is_before(asked.at, last_at):
        return Reject(Reason.OUT_OF_ORDER, "change", "at")
    previous, new = unpack_policy(asked.previous), unpack_policy(asked.policy)
    if previous is None or meaning_of(previous) != meaning_of(policy):
        return Reject(Reason.REFUSED, "change", "previous")
    if new is None or new.digest == digest or not all(one.is_allowed for one in differences(policy, new)):
        return Reject(Reason.REFUSED, "change", "policy")
    return new


async def read_change(servers: list[str], topics: Topics, reader: EventReader, offset: int) -> Policy:
    """The policy that a request, which was found to be right, asks for."""
    return (await read_both(servers, topics, reader, offset))[1]


async def read_both(servers: list[str], topics: Topics, reader: EventReader, offset: int) -> tuple[Policy, Policy]:
    """The same, behind the policy whose place it takes. Raises DisturbedError if there is no such request."""
    asked = await read_request(servers, topics, reader, offset)
    before, after = unpack_policy(asked.previous), unpack_policy(asked.policy)
    if before is None or after is None:
        raise DisturbedError
    return before, after


async def read_request(servers: list[str], topics: Topics, reader: EventReader, offset: int) -> ChangeRequest:
    """The request for a change at this offset. Raises DisturbedError if there is none."""
    async with open_reader(servers) as consumer:
        async for records in read_to_end(consumer, TopicPartition(topics.triggers, 0), offset):
            for record in records:
                asked = read_trigger(Trigger(record.offset, record.value, record.headers), reader)
                if record.offset != offset or not isinstance(asked, ChangeRequest):
                    raise DisturbedError
                return asked
    raise DisturbedError


async def read_policies(servers: list[str], topics: Topics, policy: Policy, first: int) -> dict[str, Policy]:
    """Every policy that any request for a change from this offset on has named, and `policy`, by what each means and by
    its digest.
    """
    found, reader, triggers = [policy], EventReader(policy), TopicPartition(topics.triggers, 0)
    async with open_reader(servers) as consumer:
        oldest = await read_oldest(consumer, triggers)  # others may have been deleted, with what they led to
        async for records in read_to_end(consumer, triggers, max(first, oldest)):
            for record in records:
                asked = read_trigger(Trigger(record.offset, record.value, record.headers), reader)
                if isinstance(asked, ChangeRequest):
                    both = (unpack_policy(packed) for packed in (asked.previous, asked.policy))
                    found += [one for one in both if one is not None and one.table == policy.table]
    return {name: one for one in reversed(found) for name in (meaning_of(one), one.digest)}
