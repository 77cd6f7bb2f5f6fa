"""The policies that a release of a table with shards is made under: one, or two if it changes the policy.

An owner may run under either policy. Until the seal it runs under the old one. After the seal, workers under the new
policy finish the release, and plan parts again from records in the leaves of the old one. So both are read from the
trigger that asked for the change.
"""

from typing import NamedTuple

from shoal.core.change import interim
from shoal.core.policy.policy import Policy
from shoal.streams.intake.formats import EventReader
from shoal.streams.kafka.topics import Topics
from shoal.streams.store.course import Course
from shoal.streams.store.release_log import DisturbedError
from shoal.streams.worker.changing import read_both
from shoal.streams.worker.vector import origin_in


class Policies(NamedTuple):
    """`before` has the leaves of what is stored and gathered. `during` also has the numbers of the release. `after`
    takes over with the release, unless it is None.
    """

    before: Policy
    during: Policy
    after: Policy | None


class PolicyReader:
    """What one worker's policy means for the release under way; a change is read once."""

    def __init__(self, servers: list[str], policy: Policy, partitions: int) -> None:
        self._servers, self._policy, self._partitions = servers, policy, partitions
        self._known: tuple[str, Policies] | None = None

    async def of(self, course: Course) -> Policies:
        """Raises DisturbedError, KafkaError, ServiceError."""
        if course.changed is None:
            return Policies(self._policy, self._policy, None)
        if course.vector is None or course.origin is None:
            raise DisturbedError
        if self._known is None or self._known[0] != course.vector:
            origin = origin_in(course)
            topics, reader = Topics(self._policy.table), EventReader(self._policy)
            before, after = await read_both(self._servers, topics, reader, origin.trigger)
            self._known = course.vector, Policies(before, interim(before, after), after)
        return self._known[1]
