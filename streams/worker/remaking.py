"""A table's state while a rebuild makes its releases again: one state, or those of all shards side by side."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from shoal.core.change import plan_change
from shoal.core.events.intake import Intake
from shoal.core.person import AWAY
from shoal.core.plan import Window, plan
from shoal.core.policy.policy import Policy
from shoal.core.randomness import KeyedByHandle
from shoal.core.shards.table import Table, TablePlan
from shoal.core.state import Meta, State
from shoal.streams.store.coordination import pack_cuts
from shoal.streams.store.meta import Identity
from shoal.streams.store.records import pack
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


def begin_anew(policy: Policy, key: bytes, digest: str | None = None) -> Whole:
    """The state before the first release. `digest` is what manifests name as the policy's, if not its own."""
    if policy.shards > 1:
        table = Table.empty(policy, key, KeyedByHandle)
        if digest is not None:
            table.meta = table.meta._replace(policy=digest)
            for state in table.states:
                state.meta = state.meta._replace(policy=digest)
        return ManyShards(table)
    state = State.empty(policy, key, KeyedByHandle)
    if digest is not None:
        state.meta = state.meta._replace(policy=digest)
    return OneState(state)


def go_on_with(loaded: State | Table) -> Whole:
    """The state that a snapshot had."""
    return ManyShards(loaded) if isinstance(loaded, Table) else OneState(loaded)


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
        return _intakes(policy, [self._state], partitions)

    def make(self, window: Window, policy: Policy, changed: Policy | None, number: int) -> Remade:
        state = self._state
        made = plan(state, window, policy, number) if changed is None else plan_change(state, window, changed, number)
        foreign = foreign_ids(made, state, window.deltas)
        return Remade(made.release.manifest, None, made.misrouted, foreign, lambda: state.apply(made.change))

    async def write(self, store: Store, identity: Identity, place: TablePlace) -> None:
        await write_table(store, identity, self._state, place)


class ManyShards:
    """A table with shards."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._digests: list[bytes] | None = None  # of the states, computed when first needed

    @property
    def meta(self) -> Meta:
        return self._table.meta

    @property
    def people(self) -> int:
        return sum(len(state.people.here()) for state in self._table.states)

    def intakes(self, policy: Policy, partitions: int) -> list[Intake]:
        return _intakes(policy, self._table.states, partitions)

    def make(self, window: Window, policy: Policy, changed: Policy | None, number: int) -> Remade:  # noqa: ARG002
        table = self._table
        made = table.plan(window, number, changed)
        foreign = foreign_handles(self._homes(window), window.deltas)
        digests = self._after(made)
        states, cuts = [pack(tuple(part.change.meta)) for part in made.parts], pack_cuts(made.cuts)
        proofs = proofs_of(table.states[0].keyed, number, digests, states, cuts)

        def apply() -> None:
            self._digests = digests
            table.apply(made)

        return Remade(made.manifest, proofs, made.misrouted, foreign, apply)

    def _after(self, made: TablePlan) -> list[bytes]:
        """The digests of the shards' states once a release is applied."""
        found, states = [], self._table.states
        if self._digests is None:
            self._digests = [StateDigest.of_state(state).value for state in states]
        for state, part, before in zip(states, made.parts, self._digests, strict=True):
            digest = StateDigest(state.keyed, before)
            digest.follow(part.change, state)
            found.append(digest.value)
        return found

    def _homes(self, window: Window) -> dict[str, int]:
        """The home partitions of those of a window who are known."""
        about = [person for here in window.deltas.values() for person in here]
        found: dict[str, int] = {}
        for state in self._table.states:
            people = state.people
            for person, row in zip(about, people.rows_of(about), strict=True):
                if row is not None and people.status[row] != AWAY:
                    found[person] = int(people.home[row])
        return found

    async def write(self, store: Store, identity: Identity, place: TablePlace) -> None:
        await write_table(store, identity, self._table, place)


def _intakes(policy: Policy, states: Sequence[State], partitions: int) -> list[Intake]:
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
    handle_of = states[0].keyed.handle
    return [Intake(policy, rosters[number], held=held[number], handle_of=handle_of) for number in range(partitions)]
