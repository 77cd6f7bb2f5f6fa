"""How far a release of a table with shards has come, as Redis has it.

The release under way is always the one after the last that is applied. Owners of shards and the coordinator read the
same few fields, and each does its next step. They send each other nothing. docs/protocol.md, "A release", has the
steps.
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from shoal.streams.errors import LostError
from shoal.streams.store.store import Store


class Course(NamedTuple):
    """What is known of the release under way, `number`. What desks and shards have told is of this vector only."""

    number: int
    is_frozen: bool
    """Whether it has a barrier; what the release is made of is not told before every partition has passed it."""
    is_sealed: bool
    is_sent: bool
    vector: str | None
    """The digest of what the release is made of, from step 2 on."""
    origin: bytes | None
    """What the release is made of, packed: `vector` is the digest of this."""
    cuts: bytes | None
    """What the owner of shard 0 found, where there were no cuts before."""
    gathered: Mapping[int, tuple[int, ...]]
    """By bucket, how many elements its desk wrote for each shard and, last, for strays."""
    reports: Mapping[int, bytes]
    failed: Mapping[int, str]
    is_announced: bool
    begins: Mapping[int, int]
    """By shard, where its partition of the releases topic goes on after the release before."""
    parts: Mapping[int, tuple[int, int]]
    """By shard, the offset of its first record on that partition, and the offset after the last."""
    applied: frozenset[int]
    meaning: str
    """The meaning of the table's policy; from the seal on, of the one that takes over."""
    changed: str | None
    """The meaning of the policy that takes over with the release, if one does."""

    @property
    def can_gather(self) -> bool:
        return self.vector is not None and not self.is_sealed


WORDS: Final = (
    "waiting", "gathering", "gathered", "planned", "failed", "sealed", "sending", "sent", "applying", "applied"
)  # fmt: skip
"""Where a shard can be; `gathered` until it is planned, `sealed` until the release is announced."""


def word_of(course: Course, shard: int) -> str:
    """Where a shard is in the release under way; its desk counts as a part of it."""
    if course.is_sent:
        return "applied" if shard in course.applied else "applying"
    if course.is_sealed:
        return "sent" if shard in course.parts else "sending" if course.is_announced else "sealed"
    if course.vector is None:
        return "waiting"
    if shard in course.failed:
        return "failed"
    if shard not in course.gathered:
        return "gathering"
    return "planned" if shard in course.reports else "gathered"


def waited_for(course: Course, shards: int) -> list[int]:
    """The shards that a release waits for at the step where it is; none if no release is under way."""
    done: Collection[int]
    if course.is_sent:
        done = course.applied
    elif course.is_sealed:
        done = course.parts if course.is_announced else range(shards)
    elif course.vector is None:
        done = range(shards)
    else:
        done = course.reports if len(course.gathered) == shards else course.gathered
    return [shard for shard in range(shards) if shard not in done]


async def read_course(store: Store) -> Course:
    """Costs one request. Raises LostError if Redis knows nothing of the table, or not how far a sealed release is."""
    (release, sent, applied, policy), (frozen, vector), told = await store.run("course")
    if release is None:
        raise LostError
    found = dict(zip(told[::2], told[1::2], strict=True))
    number = int(applied) + 1
    is_sealed = int(release) == number
    is_begun = found.get(b"release") == str(number).encode()
    if is_sealed and not is_begun:
        raise LostError
    is_frozen = frozen is not None and int(frozen) == number
    is_told = is_frozen and vector is not None and found.get(b"vector") == vector
    if not is_begun or not (is_sealed or is_told):
        found = {}
    fields = {name.decode(): value for name, value in found.items()}
    return Course(
        number=number,
        is_frozen=is_frozen,
        is_sealed=is_sealed,
        is_sent=int(sent) == number,
        vector=fields["vector"].decode() if "vector" in fields else None,
        origin=fields.get("origin"),
        cuts=fields.get("cuts"),
        gathered={at: _numbers(value) for at, value in _of(fields, "gathered:").items()},
        reports=_of(fields, "report:"),
        failed={at: value.decode() for at, value in _of(fields, "failed:").items()},
        is_announced=fields.get("announced") == str(number).encode(),
        begins={at: int(value) for at, value in _of(fields, "begin:").items()},
        parts={at: (first, end) for at, (first, end) in _pairs(_of(fields, "part:"))},
        applied=frozenset(at for at, value in _of(fields, "applied:").items() if int(value) == number),
        meaning=policy.decode(),
        changed=fields["policy"].decode() if "policy" in fields else None,
    )


def _of(fields: Mapping[str, bytes], prefix: str) -> dict[int, bytes]:
    return {int(name.removeprefix(prefix)): value for name, value in fields.items() if name.startswith(prefix)}


def _pairs(found: Mapping[int, bytes]) -> list[tuple[int, tuple[int, ...]]]:
    return [(at, _numbers(value)) for at, value in found.items()]


def _numbers(value: bytes) -> tuple[int, ...]:
    return tuple(int(number) for number in value.split(b","))
