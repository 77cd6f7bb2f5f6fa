"""A step of a release that failed, in memory, and how it is repeated with fewer people."""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import NamedTuple

from shoal.core.cuts import Cuts
from shoal.core.policy.policy import Policy
from shoal.core.shards.desk import Histories, Resident, gather, present
from shoal.core.shards.moves import Deltas, ShardWindow


class FailedStep(NamedTuple):
    """A step that failed, and what it can be repeated with."""

    people: Sequence[str]
    """Everybody in the window, by handle."""
    places: Sequence[tuple[int, int]]
    """Partition and offset of the record of each group of other publishers."""
    again: Callable[[Set[str], int], object]
    """Repeats it with these people of the window and so many of the groups, and fails as it did or does not."""


def gather_again(
    policy: Policy,
    cuts: Cuts | None,
    number: int,
    residents: Mapping[str, Resident],
    deltas: Deltas,
    histories: Histories,
) -> FailedStep:
    window = ShardWindow(deltas)

    def again(people: Set[str], _groups: int) -> None:
        gather(policy, cuts, number, residents, window.only(people, 0).deltas, histories)

    return FailedStep(window.people, (), again)


def present_again(policy: Policy, number: int, residents: Mapping[str, Resident], deltas: Deltas) -> FailedStep:
    window = ShardWindow(deltas)

    def again(people: Set[str], _groups: int) -> None:
        for _ in present(policy, number, residents, window.only(people, 0).deltas):
            pass

    return FailedStep(window.people, (), again)
