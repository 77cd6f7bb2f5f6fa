"""What manifests say of shards, against the policy and the cells: whose regions they are, and how many people."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.epochs import Epoch
from shoal.core.audit.reading.regions import Region, RegionReader
from shoal.core.audit.reading.strictjson import parse
from shoal.core.audit.reading.together import shard_of
from shoal.core.policy.policy import Policy

SETTINGS = "a manifest has other shards or deltas than the policy"
REGION = "a shard's region cannot be read, or is another than before and not by new labels alone"
OVERLAP = "two shards share a part of the space"
ABROAD = "a cell lies outside its shard"
ACROSS = "a group has rows in another shard"
PEOPLE = "a shard has another number of people than its cells"


class ShardReader:
    """Follows the shards of one table. Regions never change, but for labels that come with another policy."""

    def __init__(self, policy: Policy, regions: RegionReader, findings: Findings) -> None:
        self._policy, self._reader, self._findings = policy, regions, findings
        self._regions: list[Region] = []
        self._leaves = policy  # that the last release was made with

    def see(
        self,
        number: int,
        text: bytes,
        epoch: Epoch,
        regions: Mapping[str, Region],
        people: Mapping[str, int],
        groups: Mapping[str, Iterable[str]],
    ) -> None:
        """Checks a manifest, which can be read; `regions` and `people` are those of the cells as they stand, and
        `groups` the cells that each group names.
        """
        manifest: Any = parse(text, written=True)
        say, policy, shards = self._findings.say, epoch.policy, manifest.get("shards")
        told = manifest.get("full_every"), len(shards) if isinstance(shards, list) else None
        counts = (None,) if policy.is_plain else (1,) if policy.shards == 1 else (0, policy.shards)
        is_right = told in [(None if policy.is_plain else policy.full_every, count) for count in counts]
        say(Promise.CONTRACT, SETTINGS, number, times=int(not is_right))
        if not isinstance(shards, list) or not all(isinstance(part, dict) for part in shards) or not shards:
            return
        self._see_regions(number, [part.get("region") for part in shards], epoch.leaves)
        here: Counter[int] = Counter()
        for cell, region in regions.items():
            shard = shard_of(cell)
            here[shard] += people[cell]
            is_home = 0 <= shard < len(self._regions) and region.is_inside(self._regions[shard])
            say(Promise.G1, ABROAD, number, cell, int(not is_home and bool(self._regions)))
        for group, cells in groups.items():
            say(Promise.G1, ACROSS, number, group, int(any(shard_of(cell) != shard_of(group) for cell in cells)))
        for shard, part in enumerate(shards):
            say(Promise.CONTRACT, PEOPLE, number, f"s{shard}", int(part.get("people") != here[shard]))

    def _see_regions(self, number: int, raw: list[object], leaves: Policy) -> None:
        say, read = self._findings.say, [self._reader.read(region) for region in raw]
        found = [region for region, wrong in read if region is not None and not wrong]
        is_known = found == self._regions
        is_right = is_known or not self._regions or self._are_longer(found, leaves)
        if len(found) != len(raw) or not is_right:
            say(Promise.G1, REGION, number)
            return
        if not is_known:
            pairs = [(one, other) for turn, one in enumerate(found) for other in found[:turn]]
            say(Promise.G1, OVERLAP, number, times=sum(not one.is_disjoint(other) for one, other in pairs))
        self._regions, self._leaves = found, leaves

    def _are_longer(self, found: list[Region], leaves: Policy) -> bool:
        """Whether these regions have all that they had, and beside it only labels that no policy had before."""
        if leaves is self._leaves or len(found) != len(self._regions):
            return False
        pairs = list(zip(self._regions, found, strict=True))
        return all(was.is_inside(now) and self._old_part(was) == self._old_part(now) for was, now in pairs)

    def _old_part(self, region: Region) -> list[object]:
        """What a region has of the leaves that the last release was made with."""
        found: list[object] = []
        attributes = zip(self._policy.attributes, self._leaves.attributes, region.low, region.high, strict=True)
        for now, was, low, high in attributes:
            if now.hierarchy is None or was.hierarchy is None:
                found.append((low, high))
            else:
                found.append({*now.hierarchy.leaves[int(low) : int(high)]} & was.hierarchy.leaf_code.keys())
        return found
