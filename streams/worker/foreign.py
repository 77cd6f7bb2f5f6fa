"""The people of a window whose home is not the partition that their events came by."""

from collections.abc import Mapping

from shoal.core.events.window import OFFSETS
from shoal.core.shards.moves import Deltas


def foreign_handles(homes: Mapping[str, int], deltas: Deltas) -> dict[int, list[str]]:
    """By partition, the handles of people who are at home in another one. `homes` are of those who were known before;
    anybody else is at home where they came first.
    """
    found: dict[int, list[str]] = {}
    new: dict[str, int] = {}
    for partition in sorted(deltas):
        for handle, delta in deltas[partition].items():
            home = homes.get(handle)
            home = new.setdefault(handle, partition) if home is None else home
            if home != partition and delta[OFFSETS] is not None:
                found.setdefault(partition, []).append(handle)
    return found
