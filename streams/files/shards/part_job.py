"""One shard's part of a release, planned from its file and written to files: what a process of `shoal replay` does.

Of each shard there is one file for each release, so that a release that is not made leaves the one before as it was.
What is published stands in files beside it until the release is staged.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgpack

from shoal.core.cells.shard import Shard
from shoal.core.cells.tree import Rows
from shoal.core.overlap.external import ExternalGroup
from shoal.core.parts import PartPlan, Summary
from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed, KeyedByHandle
from shoal.core.release import Members
from shoal.core.shards.moves import ShardWindow, joined
from shoal.core.shards.part import plan_part
from shoal.core.state import State
from shoal.streams.files.release_folder import CELLS, GONE, GROUPS, ROWS, VALUES, tables
from shoal.streams.files.shards.shard_file import map_shard, write_shard
from shoal.streams.memory import without_cycle_search


@dataclass(frozen=True)
class Workplace:
    """Where the shards of a table are: the folder of their files, and whether the disk must have these."""

    policy: Policy
    secret: bytes
    folder: Path
    is_kept: bool
    has_audit: bool

    @property
    def keyed(self) -> Keyed:
        return KeyedByHandle(self.secret, self.policy.table)

    def state(self, release: int, shard: int) -> Path:
        """The file of a shard's state after a release."""
        return self.folder / f"{release:06}-{shard:04}"

    def window(self, shard: int) -> Path:
        """The file of what a shard is told about the release under way."""
        return self.folder / f"window-{shard:04}"

    def part(self, shard: int, name: str) -> Path:
        """A file of the release under way, as far as this shard makes it."""
        return self.folder / f"part-{shard:04}-{name}"


class PartJob(NamedTuple):
    """A part to be made; `digest` is that of the shard's file, None if there is none yet."""

    number: int
    shard: Shard
    digest: bytes | None
    externals: Sequence[ExternalGroup]
    changed: Policy | None = None
    """The policy that takes over with this release, if one does."""


class Placed(NamedTuple):
    """Who is published where in a part, by handle; private."""

    handles: list[str]
    groups: Rows
    cells: Rows
    values: Rows

    @classmethod
    def of(cls, members: Members) -> "Placed":
        assert members.values is not None
        return cls(list(members.ids()), members.groups, members.cells, members.values)


class PartMade(NamedTuple):
    """A part that was made. `digest` is that of the shard's new file."""

    summary: Summary
    digest: bytes
    cohorts: Mapping[str, list[list[str]]]
    placed: Placed | None


def make_part(place: Workplace, job: PartJob) -> PartMade:
    """Plans a part, and writes its files and the shard's state after it."""
    with without_cycle_search():
        state, planned = plan_from_file(place, job)
        _write_part(place, job.shard.number, planned)
        placed = Placed.of(planned.members) if place.has_audit else None
        digest = write_after(place, job, state, planned)
        return PartMade(planned.summary, digest, planned.cohorts, placed)


def plan_from_file(place: Workplace, job: PartJob) -> tuple[State, PartPlan]:
    """The state in a shard's file, which is all in memory from here on, and its part of a release."""
    state, window = _load(place, job), _read_window(place, job)
    return state, plan_part(state, window, place.policy, job.number, job.shard, job.changed)


def write_after(place: Workplace, job: PartJob, state: State, planned: PartPlan) -> bytes:
    """Writes the state after a part; returns the digest of its file."""
    state.apply(planned.change)
    return write_shard(place.state(job.number, job.shard.number), state, is_kept=place.is_kept)


def _load(place: Workplace, job: PartJob) -> State:
    if job.digest is None:
        return State.empty(place.policy, place.keyed, shard=Shard(job.shard.number, None))
    path = place.state(job.number - 1, job.shard.number)
    return map_shard(path, place.policy, place.keyed, digest=job.digest).state


def _read_window(place: Workplace, job: PartJob) -> ShardWindow:
    path = place.window(job.shard.number)
    windows: Iterable[ShardWindow] = ()
    if path.exists():
        unpacker = msgpack.Unpacker(use_list=False, strict_map_key=False, max_buffer_size=0)
        unpacker.feed(path.read_bytes())
        windows = map(ShardWindow.unpack, unpacker)
    return joined(windows, job.externals)


def _write_part(place: Workplace, shard: int, planned: PartPlan) -> None:
    files: dict[str, bytes] = {
        name: b"".join([record + b"\n" for record in records])
        for name, records in ((CELLS, planned.cells), (GROUPS, planned.groups), (GONE, planned.gone))
    }
    if planned.summary.is_full:
        names = [attribute.name for attribute in place.policy.attributes]
        rows, values = tables(planned.cells, planned.groups, names)
        files[ROWS], files[VALUES] = (table.partition(b"\n")[2] for table in (rows, values))
    for name, content in files.items():
        place.part(shard, name).write_bytes(content)


_workplace: Workplace | None = None


def begin_process(place: Workplace) -> None:
    """What a process has to know before its first part."""
    global _workplace  # noqa: PLW0603 - a process works at one place for all its life
    _workplace = place


def make_part_here(job: PartJob) -> PartMade:
    """`make_part` in a process that has begun."""
    assert _workplace is not None
    return make_part(_workplace, job)
