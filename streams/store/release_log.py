"""A release on its way into Redis: frozen, staged beside the current state, sealed, marked as sent, applied.

What a release changes can be large, and Redis writes nothing large at once. So it is staged under the release's
number, key by key, and made the current release by one small script, the *seal*. From then on the staged keys are a
redo log: bringing them into the current state may be interrupted and repeated, and is finished by whoever plans next.

Everything here is refused unless the planner's token is still the stored one.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from shoal.core.events.window import Delta
from shoal.core.overlap.external import as_external
from shoal.core.plan import Plan
from shoal.core.policy.policy import Policy
from shoal.core.state import Clique, State
from shoal.streams.faults import crash_point
from shoal.streams.intake.partition import PERSON_KIND, read_window
from shoal.streams.memory import without_cycle_search
from shoal.streams.store.encryption import PlainSeal, Seal
from shoal.streams.store.records import Mark, clique_of, group_of, make_packer, node_of, person_of, unpack
from shoal.streams.store.store import (
    SHARDS,
    TRIGGERS,
    Counts,
    FencedError,
    LostError,
    Store,
    TableMeta,
    people_keys,
    shard_of,
)
from shoal.streams.thread import in_thread
from shoal.streams.worker.external import NOTHING_READ, ExternalRead, external_label, reached

_CHUNK = 1_000
_AT_ONCE = 8
OUTBOX = "outbox"
CLIQUE_KIND: Final = b"clique"


class DisturbedError(Exception):
    """Redis is not where this planner left it. It has to start again from what is there."""


class Barrier(NamedTuple):
    """A frozen release."""

    release: int
    trigger: int
    at: str | None
    marks: Mapping[int, int]
    """Where each partition's window ends, for those that have got there."""
    external: tuple[int, ...] = ()
    """Where each partition of the external topic ended when the release was frozen."""


@dataclass(frozen=True)
class Chunk:
    """Fields of one key of the current state, to be written with a release."""

    key: str
    entries: list[bytes]


class Redo:
    """The planner's writing to Redis, under one token."""

    def __init__(self, store: Store, token: str, partitions: int) -> None:
        self._store, self._token, self._partitions = store, token, partitions

    async def check_held(self) -> None:
        """Raises FencedError if the planner's part is somebody else's by now."""
        held = await self._store.redis.hget(self._store.key("ingest"), f"token:{TRIGGERS}")
        if held is not None and held.decode() != self._token:
            raise FencedError

    async def freeze(
        self, release: int, trigger: int, at: str | None, now_s: float, ends: Mapping[str, int] | Mapping[int, int]
    ) -> str:
        """Step 1. `ends` are offsets that the windows must reach at least, those of external partitions as `external:p`
        and exactly. Answers ok, seen or frozen.

        Raises DisturbedError if `release` is not the next.
        """
        given = [part for pair in ends.items() for part in pair]
        word = await self._store.order("freeze", self._token, release, trigger, at or "", repr(now_s), *given)
        if word == "stale":
            raise DisturbedError
        return word

    async def skip(self, trigger: int, mark: bytes = b"") -> None:
        """A trigger that makes no release."""
        await self._store.order("skip", self._token, trigger, mark)

    async def barrier(self) -> Barrier | None:
        """The release that is frozen, if one is."""
        found: Mapping[bytes, bytes] = await self._store.redis.hgetall(self._store.key("barrier"))
        if not found:
            return None
        marks = {int(name[5:]): int(value) for name, value in found.items() if name.startswith(b"mark:")}
        given = {name: int(value) for name, value in found.items() if name.startswith(b"given:external:")}
        external = tuple(given[f"given:external:{number}".encode()] for number in range(len(given)))
        return Barrier(int(found[b"release"]), int(found[b"trigger"]), found[b"at"].decode() or None, marks, external)

    async def has_passed(self, release: int) -> bool:
        """Step 2: whether every partition has passed the barrier of `release`."""
        names = [f"window:{partition}" for partition in range(self._partitions)]
        windows = await self._store.redis.hmget(self._store.key("ingest"), [*names, f"token:{TRIGGERS}"])
        if None in windows:
            raise LostError
        return all(int(window) > release for window in windows[:-1])

    async def read_windows(self, release: int) -> dict[int, dict[str, Delta]]:
        """Step 3."""
        return {number: await read_window(self._store, release, number) for number in range(self._partitions)}

    async def stage(self, release: int, chunks: Iterable[Chunk]) -> int:
        """Step 5: everything that the release changes, a thousand fields at a time; returns the number of chunks."""
        if await self._store.order("unstage", self._token, release) == "stale":
            raise DisturbedError
        count = 0

        async def write(number: int, chunk: Chunk) -> None:
            word = await self._store.order("stage", self._token, release, number, chunk.key, *chunk.entries)
            if word != "ok":
                raise DisturbedError

        for batch in _batched(chunks, _AT_ONCE):
            await asyncio.gather(*(write(count + place, chunk) for place, chunk in enumerate(batch)))
            count += len(batch)
            crash_point("release.5.part")
        return count

    async def seal(
        self, release: int, before: str | None, digest: str, meta: bytes, chunks: int, counts: Counts
    ) -> None:
        """Step 6: from here on this is the release, whatever happens."""
        what = (release, before or "", digest, meta, chunks, str(counts))
        if await self._store.order("seal", self._token, *what) != "ok":
            raise DisturbedError

    async def outbox(self, release: int) -> tuple[list[bytes], bytes, list[tuple[str, bytes]]]:
        """The sealed records of a release that is not marked as sent: groups, manifest, the manifest's headers."""
        records: dict[int, bytes] = {}
        manifest, headers = b"", []
        async for chunk in self._store.scan(f"stage:{release}:{OUTBOX}"):
            for field, value in chunk:
                if field == b"manifest":
                    manifest = value
                elif field.startswith(b"header:"):
                    headers.append((field[7:].decode(), value))
                else:
                    records[int(field)] = value
        if not manifest:
            raise LostError
        return [records[number] for number in sorted(records)], manifest, sorted(headers)

    async def sent(self, release: int) -> None:
        """Step 8."""
        if await self._store.order("sent", self._token, release) != "ok":
            raise DisturbedError

    async def apply(self, release: int) -> None:
        """Step 9: the redo log into the current state; then the windows it was made of are not needed any more."""
        keys = sorted(await self._store.redis.smembers(self._store.key(f"stage:{release}:keys")))
        for start in range(0, len(keys), _AT_ONCE):
            part = keys[start : start + _AT_ONCE]
            await asyncio.gather(*(self._store.order("apply", self._token, release, key) for key in part))
            crash_point("release.9.part")
        if await self._store.order("finish", self._token, release, self._partitions) != "ok":
            raise DisturbedError


def chunks_of(
    made: Plan,
    foreign: Mapping[int, Iterable[str]],
    headers: Iterable[tuple[str, bytes]],
    seal: Seal,
    read: ExternalRead = NOTHING_READ,
) -> list[Chunk]:
    """What a plan is to write. Made in the planner's thread: packing a million people takes seconds."""
    pack = make_packer()
    release = made.release.number
    chunks: list[Chunk] = []
    chunks += _chunked(_people_entries(made, seal, pack))
    groups: dict[str, list[bytes]] = {}
    for group, record in made.change.groups.items():
        groups.setdefault(f"groups:{group % SHARDS}", []).extend((str(group).encode(), pack(tuple(record))))
    chunks += _chunked(groups)
    nodes = (part for node, record in made.change.nodes.items() for part in (str(node).encode(), pack(tuple(record))))
    chunks += _chunked({"tree": list(nodes)})
    chunks += _chunked({"cliques": list(clique_entries(made.change.cliques.items(), seal, pack))})
    others = (part for number, group in made.change.externals.items() for part in (str(number).encode(), pack(group)))
    chunks += _chunked({"externals": list(others), "external": reached(read.ends)})
    outbox = [part for number, record in enumerate(made.release.records) for part in (str(number).encode(), record)]
    for name, value in headers:
        outbox += (b"header:" + name.encode(), value)
    chunks += _chunked({OUTBOX: [*outbox, b"manifest", made.release.manifest]})
    marks: dict[str, list[bytes]] = {}
    for number, (partition, offset) in enumerate(made.misrouted):
        mark = pack(Mark(offset, "wrong-partition", None, None))
        marks.setdefault(f"rejects:{partition}", []).extend((str(number).encode(), mark))
    for partition, refused in read.marks.items():
        packed = [part for number, mark in enumerate(refused) for part in (str(number).encode(), pack(mark))]
        marks[f"rejects:{external_label(partition)}"] = packed
    chunks += _chunked(marks)
    for partition, ids in foreign.items():
        entries: list[bytes] = []
        for person in ids:
            field = seal.field(person)
            entries += (field, seal.close(PERSON_KIND, field, person, b""))
        chunks += _chunked({f"foreign:{release}:{partition}": entries})
    return chunks


def foreign_ids(made: Plan, state: State, windows: Mapping[int, Mapping[str, Delta]]) -> dict[int, list[str]]:
    """By partition, the ids that are at home elsewhere. `state` is the one the plan started from."""
    found: dict[int, list[str]] = {}
    for partition in sorted({partition for partition, _ in made.misrouted}):
        for person, delta in windows[partition].items():
            if delta[3] is None:
                continue
            row = state.people.row(person)
            home = made.change.people[person].home if row is None else int(state.people.home[row])
            if home != partition:
                found.setdefault(partition, []).append(person)
    return found


def counts_after(made: Plan, state: State, before: Counts) -> Counts:
    """How many records there are once a plan is applied; groups and nodes are only ever added, cliques may change."""
    newcomers = sum(state.people.row(person) is None for person in made.change.people)
    change = made.change
    return Counts(
        before.people + newcomers,
        before.groups + len(change.groups),
        before.nodes + len(change.nodes),
        before.cliques + len(change.cliques.keys() - state.cohorts.cliques.keys()),
        before.externals + len(change.externals),
    )


async def load_state(store: Store, policy: Policy, key: bytes, meta: TableMeta) -> State:
    """The state of the last release, which must be applied. Reads a million people in some seconds, the event loop
    free.
    """
    with without_cycle_search():
        return await _load_state(store, policy, key, meta)


async def _load_state(store: Store, policy: Policy, key: bytes, meta: TableMeta) -> State:
    raw_people = [
        found async for found in store.hashes(name for p in range(meta.partitions) for name in people_keys(p))
    ]
    raw_groups = [found async for found in store.hashes(f"groups:{shard}" for shard in range(SHARDS))]
    raw_nodes = {field: value async for chunk in store.scan("tree") for field, value in chunk}  # a scan may repeat some
    raw_cliques = {field: value async for chunk in store.scan("cliques") for field, value in chunk}
    raw_others = {field: value async for chunk in store.scan("externals") for field, value in chunk}
    few = map(len, (raw_nodes, raw_cliques, raw_others))
    if Counts(sum(map(len, raw_people)), sum(map(len, raw_groups)), *few) != meta.counts:
        raise LostError
    seal = store.seal
    is_plain = type(seal) is PlainSeal

    def build() -> State:
        def people() -> Iterator[tuple[str, object]]:
            for found in raw_people:
                for field, value in found.items():
                    person, raw = (field.decode(), value) if is_plain else seal.open(PERSON_KIND, field, value)
                    yield person, person_of(raw)

        groups = ((int(field), group_of(value)) for found in raw_groups for field, value in found.items())
        nodes = ((int(field), node_of(value)) for field, value in raw_nodes.items())
        cliques = (
            (int(field), clique_of(seal.open(CLIQUE_KIND, field, value)[1])) for field, value in raw_cliques.items()
        )
        others = ((int(field), as_external(unpack(value))) for field, value in raw_others.items())
        return State.load(policy, key, meta.sealed, people(), groups, nodes, cliques, others)  # type: ignore[arg-type]

    return await in_thread(build)


def clique_entries(
    cliques: Iterable[tuple[int, Clique]], seal: Seal, pack: Callable[[object], bytes]
) -> Iterator[bytes]:
    """Field and value of these cliques, by turns."""
    for number, clique in cliques:
        field = str(number).encode()
        yield field
        yield seal.close(CLIQUE_KIND, field, "", pack(tuple(clique)))


def _people_entries(made: Plan, seal: Seal, pack: Callable[[object], bytes]) -> dict[str, list[bytes]]:
    by_key: dict[str, list[bytes]] = {}
    for person_id, person in made.change.people.items():
        field = seal.field(person_id)
        value = seal.close(PERSON_KIND, field, person_id, pack(tuple(person)))
        by_key.setdefault(f"people:{person.home}:{shard_of(field)}", []).extend((field, value))
    return by_key


def _batched(chunks: Iterable[Chunk], size: int) -> Iterator[list[Chunk]]:
    """Lists of `size`, the last one shorter (itertools has it from Python 3.12 on)."""
    source = iter(chunks)
    while batch := list(islice(source, size)):
        yield batch


def _chunked(by_key: Mapping[str, list[bytes]]) -> Iterator[Chunk]:
    for key, entries in by_key.items():
        for start in range(0, len(entries), 2 * _CHUNK):
            yield Chunk(key, entries[start : start + 2 * _CHUNK])


__all__ = ["Barrier", "Chunk", "DisturbedError", "Redo", "chunks_of", "clique_entries", "foreign_ids", "load_state"]
