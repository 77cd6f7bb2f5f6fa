"""A table's state while a rebuild makes its releases again: one state, or those of all shards, in files.

Shards go from release to release together, because people move between them. Each is mapped from its file, planned,
and written to its next file before the next shard is planned. The desk looks people up in the files of all shards.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

from shoal.core.cuts import Cuts
from shoal.core.events.intake import Intake
from shoal.core.plan import Window, plan
from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed, KeyedByHandle
from shoal.core.shards.desk import Resident
from shoal.core.shards.moves import Deltas
from shoal.core.shards.table import Table
from shoal.core.state import Meta, State
from shoal.streams.files.shards.part_job import PartJob, PartMade, Workplace, plan_from_file, write_after
from shoal.streams.files.shards.shard_file import map_shard, write_shard
from shoal.streams.files.shards.sharded_table import SavedShards, ShardedTable
from shoal.streams.store.meta import Identity
from shoal.streams.store.records import pack
from shoal.streams.store.shard_records import pack_cuts
from shoal.streams.store.staging import foreign_ids
from shoal.streams.store.state_digest import StateDigest, proofs_of
from shoal.streams.store.store import Store
from shoal.streams.store.whole_table import TablePlace, write_table
from shoal.streams.worker.foreign import foreign_handles


class Remade(NamedTuple):
    """A release made again. `proofs` are those of its shards' states, if it has shards; `foreign` has, by partition,
    who is at home elsewhere; `apply` takes the release over.
    """

    manifest: bytes
    proofs: Sequence[str] | None
    misrouted: Sequence[tuple[int, int]]
    foreign: Mapping[int, Sequence[str]]
    apply: Callable[[], None]


class Whole(Protocol):
    """All of a table's state."""

    @property
    def meta(self) -> Meta: ...
    @property
    def people(self) -> int: ...
    def intakes(self, policy: Policy, partitions: int) -> list[Intake]:
        """What ingest knows of the people at home in each partition when the window after a release opens."""
        ...

    def make(self, window: Window, policy: Policy, changed: Policy | None, number: int) -> Remade:
        """The next release, with which the policy `changed` takes over, unless it is None."""
        ...

    async def write(self, store: Store, identity: Identity, place: TablePlace) -> None:
        """Replace everything that Redis has of the table."""


def begin_anew(policy: Policy, key: bytes, folder: Path, digest: str | None = None) -> Whole:
    """The state before the first release. `digest` is what manifests name as the policy's, if not its own. Shards are
    kept in `folder`.
    """
    named = policy if digest is None else replace(policy, digest=digest)
    if policy.shards > 1:
        return ManyShards(_workplace(named, key, folder), None)
    state = State.empty(policy, key, KeyedByHandle)
    state.meta = state.meta._replace(policy=named.digest)
    return OneState(state)


class Shelf:
    """Puts the shards of a snapshot into files, as they are read, and begins with them."""

    def __init__(self, key: bytes, folder: Path) -> None:
        self._key, self._folder = key, folder
        self._digests: dict[int, bytes] = {}

    def keep(self, state: State) -> State:
        """The same state, mapped from its file."""
        assert state.shard is not None
        number = state.shard.number
        path = _workplace(state.policy, self._key, self._folder).state(state.meta.release, number)
        self._digests[number] = write_shard(path, state, is_kept=False)
        return map_shard(path, state.policy, state.keyed).state

    def go_on_with(self, loaded: State | Table) -> Whole:
        """The state that a snapshot had; of a table with shards, every state was kept."""
        if isinstance(loaded, State):
            return OneState(loaded)
        cuts = None if loaded.cuts is None else loaded.cuts.record()
        saved = SavedShards(loaded.meta, cuts, tuple(digest for _, digest in sorted(self._digests.items())))
        return ManyShards(_workplace(loaded.policy, self._key, self._folder), saved)


def _workplace(policy: Policy, key: bytes, folder: Path) -> Workplace:
    return Workplace(policy, key, folder, is_kept=False, has_audit=False)


class OneState:
    """A table with one shard."""

    def __init__(self, state: State) -> None:
        self._state = state

    @property
    def meta(self) -> Meta:
        return self._state.meta

    @property
    def people(self) -> int:
        return len(self._state.people)

    def intakes(self, policy: Policy, partitions: int) -> list[Intake]:
        return _intakes(policy, self._state.keyed, [self._state], partitions)

    def make(self, window: Window, policy: Policy, changed: Policy | None, number: int) -> Remade:
        state = self._state
        made = plan(state, window, policy, number, changed)
        foreign = foreign_ids(made, state, window.deltas)
        return Remade(made.release.manifest, None, made.misrouted, foreign, lambda: state.apply(made.change))

    async def write(self, store: Store, identity: Identity, place: TablePlace) -> None:
        await write_table(store, identity, self._state, place)


class ManyShards:
    """A table with shards. They are in files, in lockstep; one at a time is in memory, to be planned."""

    def __init__(self, place: Workplace, saved: SavedShards | None) -> None:
        self._table = ShardedTable(place, 1, saved, self._remake, self._meet)
        self._digests: dict[int, bytes] = {}  # of the states, by shard; of a snapshot's, computed when first needed
        self._made: dict[int, _Made] = {}
        self._foreign: dict[int, list[str]] = {}

    @property
    def meta(self) -> Meta:
        return self._table.meta

    @property
    def people(self) -> int:
        return sum(len(state.people.here()) for state in self._table.states())

    def intakes(self, policy: Policy, partitions: int) -> list[Intake]:
        return _intakes(policy, self._table.keyed, self._table.states(), partitions)

    def make(self, window: Window, policy: Policy, changed: Policy | None, number: int) -> Remade:  # noqa: ARG002
        table = self._table
        self._made, self._foreign = {}, {}
        release = table.plan(window, changed)
        digests, states = zip(*(self._made[shard] for shard in sorted(self._made)), strict=True)
        proofs = proofs_of(table.keyed, number, digests, states, pack_cuts(release.cuts))

        def apply() -> None:
            self._digests = dict(enumerate(digests))
            table.apply(release)
            table.tidy()

        return Remade(release.manifest, proofs, release.misrouted, self._foreign, apply)

    def _remake(self, place: Workplace, job: PartJob) -> PartMade:
        """A part, of which only what the manifest says and the state after it are kept."""
        state, planned = plan_from_file(place, job)
        number = job.shard.number
        before = self._digests.get(number) or StateDigest.of_state(state).value
        digest = StateDigest(state.keyed, before)
        digest.follow(planned.change, state)
        self._made[number] = _Made(digest.value, pack(tuple(planned.change.meta)))
        return PartMade(planned.summary, write_after(place, job, state, planned), {}, None)

    def _meet(self, known: Mapping[str, Resident], deltas: Deltas) -> None:
        homes = {handle: resident.person.home for handle, resident in known.items()}
        for partition, handles in foreign_handles(homes, deltas).items():
            self._foreign.setdefault(partition, []).extend(handles)

    async def write(self, store: Store, identity: Identity, place: TablePlace) -> None:
        table = self._table
        await write_table(store, identity, _Written(table.meta, table.cuts, table.states()), place)


class _Made(NamedTuple):
    """Of a shard after a release: the digest of its state, and its own record, packed."""

    digest: bytes
    state: bytes


class _Written(NamedTuple):
    """A table with shards, to be written once."""

    meta: Meta
    cuts: Cuts | None
    states: Iterable[State]


def _intakes(policy: Policy, keyed: Keyed, states: Iterable[State], partitions: int) -> list[Intake]:
    rosters: list[dict[str, int]] = [{} for _ in range(partitions)]
    held: list[dict[str, tuple[int, ...]]] = [{} for _ in range(partitions)]
    for state in states:
        people = state.people
        rows, holdings = people.here(), people.holdings()
        facts = zip(people.ids(rows), people.status[rows].tolist(), people.home[rows].tolist(), strict=True)
        for person, status, home in facts:
            rosters[home][person] = status
            if person in holdings:
                held[home][person] = holdings[person]
    lists = zip(rosters, held, strict=True)
    return [Intake(policy, roster, held=mine, handle_of=keyed.handle) for roster, mine in lists]
