"""The series of releases that a replay goes on with: a table in memory, or a sharded one in files.

`replay.py` has the numbered steps of a release. This is what each of them does with either.
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from shoal.core.person import Values
from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.policy import Policy
from shoal.core.published.manifest import Manifest, PublishedRelease
from shoal.core.randomness import Keyed, KeyedByHandle
from shoal.core.state import Meta, State
from shoal.streams.files.names import Names
from shoal.streams.files.policy_change import Changes
from shoal.streams.files.release_folder import CELLS, GONE, GROUPS, ROWS, VALUES, ReleaseFolder
from shoal.streams.files.replay_state import Position, SavedState, StateFile
from shoal.streams.files.shards.part_job import Workplace
from shoal.streams.files.shards.sharded_table import ShardedRelease, ShardedTable

Cohorts = Mapping[str, list[list[str]]]


class Series(Protocol):
    """A table between two releases, or with one that is planned."""

    @property
    def policy(self) -> Policy: ...

    @property
    def meta(self) -> Meta: ...

    @property
    def keyed(self) -> Keyed: ...

    def known(self) -> tuple[dict[str, int], dict[str, Values]]:
        """Everyone's status and the permanent values of their holders, as `Intake` wants them."""
        ...

    def plan(self, window: Window) -> bytes:
        """Plans the next release and returns its manifest. The window may be empty afterwards."""
        ...

    def stage(self, folder: ReleaseFolder) -> None:
        """Writes the release where no reader looks."""
        ...

    def private(self, names: Names) -> tuple[Iterator[str], Cohorts]:
        """Who is published where, as lines by id, and whose cohorts stand behind them."""
        ...

    def apply(self) -> None:
        """Takes over the release."""
        ...

    def save(self, file: StateFile, secret: bytes, position: Position) -> None:
        """Writes the state down."""
        ...

    def tidy(self) -> None:
        """Removes what is not needed any more."""
        ...


class OneTable:
    """A table in memory."""

    def __init__(self, state: State, changes: Changes) -> None:
        self._state, self._changes = state, changes
        self._planned: Plan | None = None

    @property
    def policy(self) -> Policy:
        return self._state.policy

    @property
    def meta(self) -> Meta:
        return self._state.meta

    @property
    def keyed(self) -> Keyed:
        return self._state.keyed

    def known(self) -> tuple[dict[str, int], dict[str, Values]]:
        return self._state.people.roster(), self._state.people.holdings()

    def plan(self, window: Window) -> bytes:
        state, number = self._state, self.meta.release + 1
        changed = self._changes.get(number)
        self._planned = plan(state, window, state.policy, number, changed)
        return self._planned.release.manifest

    def stage(self, folder: ReleaseFolder) -> None:
        assert self._planned is not None
        release = self._planned.release
        head = Manifest(release.manifest)
        folder.stage(PublishedRelease(release.number, release.cells, release.groups, head, release.gone))

    def private(self, names: Names) -> tuple[Iterator[str], Cohorts]:
        assert self._planned is not None
        release = names.named(self._planned.release)
        return release.members.lines(), release.cohorts

    def apply(self) -> None:
        assert self._planned is not None
        self._state.apply(self._planned.change)
        self._planned = None

    def save(self, file: StateFile, secret: bytes, position: Position) -> None:
        file.save(secret, position, self._state)

    def tidy(self) -> None:
        """There is nothing beside the state."""


class Shards:
    """A sharded table in files."""

    def __init__(self, table: ShardedTable, changes: Changes) -> None:
        self._table, self._changes = table, changes
        self._planned: ShardedRelease | None = None

    @property
    def policy(self) -> Policy:
        return self._table.policy

    @property
    def meta(self) -> Meta:
        return self._table.meta

    @property
    def keyed(self) -> Keyed:
        return self._table.keyed

    def known(self) -> tuple[dict[str, int], dict[str, Values]]:
        return self._table.roster_and_holdings()

    def plan(self, window: Window) -> bytes:
        self._planned = self._table.plan(window, self._changes.get(self.meta.release + 1))
        return self._planned.manifest

    def stage(self, folder: ReleaseFolder) -> None:
        made = self._planned
        assert made is not None
        parts = {name: self._table.parts(name) for name in (CELLS, GROUPS, GONE, ROWS, VALUES)}
        folder.stage_parts(made.number, parts, made.manifest, is_full=made.is_full)

    def private(self, names: Names) -> tuple[Iterator[str], Cohorts]:
        assert self._planned is not None
        return self._table.members(self._planned, names.ids), self._table.cohorts(self._planned, names.ids)

    def apply(self) -> None:
        assert self._planned is not None
        self._table.apply(self._planned)
        self._planned = None

    def save(self, file: StateFile, secret: bytes, position: Position) -> None:
        self._table.sync()
        file.save_shards(secret, position, self.policy, self._table.saved())

    def tidy(self) -> None:
        self._table.tidy()


@contextmanager
def open_series(
    policy: Policy,
    changes: Changes,
    secret: bytes,
    saved: SavedState | None,
    state: Path | None,
    *,
    jobs: int,
    has_audit: bool,
) -> Iterator[Series]:
    """The series of a table under `policy`, which goes on where `saved` is.

    The files of shards lie in a folder beside the file `state`, or in one that is removed at the end.
    """
    if policy.shards == 1:
        yield OneTable(saved.state if saved else State.empty(policy, secret, KeyedByHandle), changes)
        return
    with _folder(state) as folder:
        place = Workplace(policy, secret, folder, is_kept=state is not None, has_audit=has_audit)
        table = ShardedTable(place, jobs, saved.shards if saved else None)
        try:
            yield Shards(table, changes)
        finally:
            table.close()


@contextmanager
def _folder(state: Path | None) -> Iterator[Path]:
    if state is None:
        folder = Path(tempfile.mkdtemp(prefix="shoal-shards-"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    folder = state.with_name(f"{state.name}.shards")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    yield folder
