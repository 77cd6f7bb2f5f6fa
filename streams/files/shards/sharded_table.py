"""A sharded table whose shards are in files, planned by processes of which each has one in memory.

`shoal replay` and `shoal rebuild` have such tables. This process is the desk. It finds the people of a window in the
files of all shards, which are mapped and not read, and writes down what each shard is told. Then the shards are
planned, one after the other or side by side. What is published does not depend on how many processes there are.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import msgpack

from shoal.core.cells.shard import Shard
from shoal.core.change import interim
from shoal.core.conclude import conclude
from shoal.core.cuts import Cuts, Record, Sample
from shoal.core.fold import Window
from shoal.core.person import Values
from shoal.core.policy.policy import Policy
from shoal.core.publication import shard_prefix
from shoal.core.release import Members
from shoal.core.shards.desk import Resident, gather, present
from shoal.core.shards.moves import Deltas
from shoal.core.shards.table import join_cohorts
from shoal.core.state import Meta, State
from shoal.streams.errors import StreamsError
from shoal.streams.files.release_folder import sync_folder
from shoal.streams.files.shards.file_desk import FileHistories, WindowDeltas, new_deltas, residents_in, take_out
from shoal.streams.files.shards.part_job import PartJob, PartMade, Workplace, begin_process, make_part, make_part_here
from shoal.streams.files.shards.shard_file import ShardFile, map_shard

AT_ONCE = 100_000  # people at the desk


class SavedShards(NamedTuple):
    """What a state file says of a sharded table: the series, the cuts if there are any, and its files' digests."""

    meta: Meta
    cuts: Record | None
    digests: tuple[bytes, ...]


class ShardedRelease(NamedTuple):
    """A release that is planned: its parts lie in files."""

    number: int
    manifest: bytes
    made: tuple[PartMade, ...]
    cuts: Cuts | None
    meta: Meta
    policy: Policy
    """The one that holds from then on; `cuts` are in its leaves."""
    misrouted: tuple[tuple[int, int], ...] = ()
    """Partition and offset of events that came by another partition than their person's."""

    @property
    def is_full(self) -> bool:
        """Whether every part has all of its records."""
        return all(part.summary.is_full for part in self.made)


Make = Callable[[Workplace, PartJob], PartMade]
Meet = Callable[[Mapping[str, Resident], Deltas], None]


def _overlook(_known: Mapping[str, Resident], _deltas: Deltas) -> None:
    """Nobody has to know whom the desk meets."""


class ShardedTable:
    """The shards of a table between two releases.

    With one job, `make` makes a part in this process. `meet` is told of the people whom the desk meets, some at a time:
    the records of those who are known, and all deltas about them and about new ones.
    """

    def __init__(
        self,
        place: Workplace,
        jobs: int,
        saved: SavedShards | None = None,
        make: Make = make_part,
        meet: Meet = _overlook,
    ) -> None:
        self.keyed = place.keyed
        self._place, self._jobs, self._make_one, self._meet = place, jobs, make, meet
        self._pool: ProcessPoolExecutor | None = None
        self.meta = saved.meta if saved else State.empty(place.policy, self.keyed).meta
        self._cuts = Cuts.read(place.policy, saved.cuts) if saved and saved.cuts else None
        digests = saved.digests if saved else ()  # none before the first release
        self._digests: tuple[bytes | None, ...] = digests or (None,) * place.policy.shards

    # -- between releases ---------------------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The one that the next release is made under."""
        return self._place.policy

    @property
    def cuts(self) -> Cuts | None:
        """The regions of the shards, if they are made."""
        return self._cuts

    def states(self) -> Iterator[State]:
        """The shards' states one after the other, from their files; none before the first release."""
        for shard in range(self.policy.shards if self.meta.release else 0):
            yield self._map(shard).state

    def saved(self) -> SavedShards:
        """What a state file has to say."""
        return SavedShards(self.meta, self._cuts.record() if self._cuts else None, tuple(filter(None, self._digests)))

    def roster_and_holdings(self) -> tuple[dict[str, int], dict[str, Values]]:
        """Everyone's status and the permanent values of their holders, as `Intake` wants them."""
        roster: dict[str, int] = {}
        held: dict[str, Values] = {}
        for shard in self._mapped(is_checked=True):
            roster |= shard.state.people.roster()
            held |= shard.state.people.holdings()
        return roster, held

    def sync(self) -> None:
        """Waits until the disk has the names of the files; it has their content."""
        sync_folder(self._place.folder)

    def tidy(self) -> None:
        """Removes what a crash has left, and the states before the last release."""
        current = {self._place.state(self.meta.release, shard) for shard in range(self.policy.shards)}
        for path in self._place.folder.iterdir():
            if path not in current:
                path.unlink()

    def close(self) -> None:
        """Ends the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._pool = None

    # -- a release ----------------------------------------------------------------------------------------------------

    def plan(self, window: Window, changed: Policy | None = None) -> ShardedRelease:
        """The next release, with which the policy `changed` takes over, unless it is None.

        The window's deltas are taken out of it one by one, for they need memory.
        """
        number = self.meta.release + 1
        policy = self.policy if changed is None else interim(self.policy, changed)
        deltas = {partition: here for partition, here in sorted(window.deltas.items()) if isinstance(here, dict)}
        assert len(deltas) == len(window.deltas)
        cuts, misrouted = self._gather(policy, number, deltas)
        shards = [Shard(shard, None) if cuts is None else cuts.shard(shard) for shard in range(self.policy.shards)]
        jobs = [
            PartJob(number, shard, digest, window.externals, changed)
            for shard, digest in zip(shards, self._digests, strict=True)
        ]
        made = self._make(jobs)
        summaries = [part.summary for part in made]
        manifest, meta, after, cuts = conclude(self.policy, changed, self.meta, window.at, summaries, cuts)
        return ShardedRelease(number, manifest, tuple(made), cuts, meta, after, misrouted)

    def parts(self, name: str) -> list[Path]:
        """The files of the release under way that have one kind of records, in the order of shards."""
        return [self._place.part(shard, name) for shard in range(self.policy.shards)]

    def apply(self, release: ShardedRelease) -> None:
        """Take over a sealed release."""
        self.meta, self._cuts = release.meta, release.cuts
        self._digests = tuple(part.digest for part in release.made)
        if release.policy is not self.policy:
            self.close()  # processes begin anew, under the policy that has taken over
            self._place = replace(self._place, policy=release.policy)

    def members(self, release: ShardedRelease, ids: Mapping[str, str]) -> Iterator[str]:
        """The lines of the members file, by id."""
        lines: list[tuple[str, str]] = []
        leaves = self.policy.sensitive.hierarchy.leaves
        for shard, part in enumerate(release.made):
            assert part.placed is not None
            handles, groups, cells, values = part.placed
            names, prefix = [ids[handle] for handle in handles], shard_prefix(shard)
            lines += Members(names.copy, groups, cells, values, leaves, prefix).named_lines()
        return (line for _, line in sorted(lines, key=lambda one: one[0]))

    def cohorts(self, release: ShardedRelease, ids: Mapping[str, str]) -> dict[str, list[list[str]]]:
        """The cohorts of all shards, by id."""
        found = join_cohorts([part.cohorts for part in release.made])
        return {value: [[ids[owner] for owner in cohort] for cohort in cohorts] for value, cohorts in found.items()}

    # -- the desk -----------------------------------------------------------------------------------------------------

    def _gather(
        self, policy: Policy, number: int, deltas: WindowDeltas
    ) -> tuple[Cuts | None, tuple[tuple[int, int], ...]]:
        """Writes what each shard is told; returns the cuts, which this release may make, and what was misrouted."""
        for shard in range(self.policy.shards):
            self._place.window(shard).unlink(missing_ok=True)
        mapped = self._mapped()
        # Before there are cuts nobody was published, and everybody is looked at.
        everybody = dict(residents_in(mapped)) if self._cuts is None else {}
        cuts = self._cuts or self._make_cuts(policy, number, everybody, deltas)
        histories, misrouted = FileHistories(mapped), list[tuple[int, int]]()
        for known, some in self._batches(mapped, everybody, deltas):
            self._meet(known, some)
            found = gather(policy, cuts, number, known, some, histories)
            misrouted += found.misrouted
            for shard, window in found.windows.items():
                with self._place.window(shard).open("ab") as file:
                    file.write(msgpack.packb(window.pack()))
        return cuts, tuple(sorted(misrouted))

    def _make_cuts(
        self, policy: Policy, number: int, everybody: Mapping[str, Resident], deltas: WindowDeltas
    ) -> Cuts | None:
        sample = Sample(policy, self.keyed)
        known = {
            partition: {handle: here[handle] for handle in everybody if handle in here}
            for partition, here in deltas.items()
        }
        sample.add(present(policy, number, everybody, known))
        new = new_deltas(everybody, deltas)
        while some := dict(islice(new, AT_ONCE)):
            sample.add(present(policy, number, {}, {0: some}))
        return sample.cuts()

    def _batches(
        self, mapped: Sequence[ShardFile], everybody: Mapping[str, Resident], deltas: WindowDeltas
    ) -> Iterator[tuple[Mapping[str, Resident], WindowDeltas]]:
        """The deltas, which are taken out, with the records of the people they are about; all of one person at once."""
        if self._cuts is None:
            yield everybody, {partition: take_out(here, everybody) for partition, here in deltas.items()}
        for partition, here in deltas.items():
            later = [(other, there) for other, there in deltas.items() if other > partition]
            while here:
                some = {partition: dict(here.popitem() for _ in range(min(AT_ONCE, len(here))))}
                asked = list(some[partition])
                some |= {other: found for other, there in later if (found := take_out(there, asked))}
                yield {} if self._cuts is None else dict(residents_in(mapped, asked)), some

    def _mapped(self, *, is_checked: bool = False) -> list[ShardFile]:
        """The shards' files of the last release; none before the first."""
        if not self.meta.release:
            return []
        return [self._map(shard, is_checked=is_checked) for shard in range(self.policy.shards)]

    def _map(self, shard: int, *, is_checked: bool = False) -> ShardFile:
        path = self._place.state(self.meta.release, shard)
        return map_shard(path, self.policy, self.keyed, digest=self._digests[shard] if is_checked else None)

    # -- processes ----------------------------------------------------------------------------------------------------

    def _make(self, jobs: Sequence[PartJob]) -> list[PartMade]:
        if self._jobs == 1:
            return [self._make_one(self._place, job) for job in jobs]
        if self._pool is None:
            workers = min(self._jobs, self.policy.shards)
            self._pool = ProcessPoolExecutor(workers, get_context("spawn"), begin_process, (self._place,))
        try:
            return list(self._pool.map(make_part_here, jobs))
        except BrokenProcessPool:
            raise StreamsError(
                "a process that planned a shard was ended, perhaps for want of memory; run the same command with "
                "fewer --jobs."
            ) from None
