"""The keys of a table in Redis, all of them: what each holds, and how its name is made.

Every key begins with `{shoal:<table>}:`, so a table is one slot of a Redis Cluster. p is a partition of the events
topic, n a release, s a shard. A *label* names a source of records: the number of an events partition, `triggers`, or
`external:p`.

| key             | type | holds |
|-----------------|------|-------|
| meta            | hash | format, policy, engine, key, seal (fingerprints of SHOAL_STATE_KEY), partitions, created; |
|                 |      | while `shoal rekey` runs: rekey, the fingerprint of the key that writes; |
|                 |      | written by the seal script: release, manifest, state, counts; sent, applied: the last |
|                 |      | release on the topic, and the last that is in the keys below |
| beginning       | text | for a minute: one worker is creating this table |
| rights          |      | used, and removed again, by the script that finds out which commands are allowed |
| people:p:s      | hash | handle → person, in 32 shards for each home partition |
| groups:s        | hash | number → group record |
| tree            | hash | node → node record |
| cliques         | hash | number → clique, which has its owners' handles and is encrypted as people are |
| externals       | hash | number → group of another publisher |
| signatures      | hash | number → signature of a lasting table |
| lasting:s       | hash | number → group of a lasting table, in 32 shards |
| bonds           | hash | number → clique of a lasting table, encrypted as people are |
| external        | hash | p → offset up to which the external topic has been read |
| ingest          | hash | offset:p, window:p, accepted:n; token:label, floor:label; trigger, fired; |
|                 |      | at, the last time that a release has named |
| window:n:p      | list | one element a batch, {handle: delta}: the changes of the window of release n so far |
| skipped         | set  | label:offset of records that an operator has left out |
| rejects:label   | list | rejected records that are not dead letters yet |
| barrier         | hash | a release that is frozen and not sealed: release, trigger, at, given:p, given:external:p, |
|                 |      | mark:p, the barrier of partition p, and policy, if another one takes over with it |
| stage:n:KEY     | hash | what release n will change in KEY; stage:n:outbox has its records for the topic |
| stage:n:keys    | set  | the staged keys that are not applied yet |
| stage:n:chunks  | set  | the numbers of the staged chunks, counted by the seal |
| foreign:n:p     | hash | handles of people whom release n found to be at home in another partition than p |
| beside:KEY      |      | what an upgrade will put in the place of KEY, or what one that was broken off has left |

No key holds an id: a person is called by their handle, a keyed hash of it (core/randomness.py).

Some names are older than the words used now (`seal`, `mark:p`); stored names stay, so that a stored table stays
readable. The scripts in lua/ spell these names out; nothing outside this room does. `shoal source` has keys of its own
(source_book.py).
"""

from functools import cache
from zlib import crc32

SHARDS = 32
TRIGGERS = "triggers"
OUTBOX = "outbox"
META, BEGINNING, INGEST, BARRIER, TREE, CLIQUES = "meta", "beginning", "ingest", "barrier", "tree", "cliques"
EXTERNALS, EXTERNAL = "externals", "external"
SIGNATURES, BONDS = "signatures", "bonds"
SKIPPED = "skipped"
BESIDE = "beside:"
_EXTERNAL_LABEL = "external:"


def people_key(home: int, field: bytes) -> str:
    return people_keys(home)[crc32(field) % SHARDS]


@cache
def people_keys(partition: int) -> tuple[str, ...]:
    return tuple(f"people:{partition}:{shard}" for shard in range(SHARDS))


def group_key(group: int) -> str:
    return f"groups:{group % SHARDS}"


def group_keys() -> list[str]:
    return [f"groups:{shard}" for shard in range(SHARDS)]


def lasting_group_key(group: int) -> str:
    return f"lasting:{group % SHARDS}"


def lasting_group_keys() -> list[str]:
    return [f"lasting:{shard}" for shard in range(SHARDS)]


def window_key(window: int, partition: int) -> str:
    return f"window:{window}:{partition}"


def rejects_key(label: str) -> str:
    return f"rejects:{label}"


def staged_key(release: int, key: str) -> str:
    return f"stage:{release}:{key}"


def foreign_key(release: int, partition: int) -> str:
    return f"foreign:{release}:{partition}"


def external_label(partition: int) -> str:
    """The label of a partition of the external topic."""
    return f"{_EXTERNAL_LABEL}{partition}"


def label_of(topic: str, partition: int) -> str:
    """The label of a partition of a topic, by the topic's last name: events, external or triggers."""
    return {"events": str(partition), "external": external_label(partition)}.get(topic, TRIGGERS)


def external_partition(label: str) -> int | None:
    """The partition of the external topic that a label names; None if it names another source."""
    return int(label.removeprefix(_EXTERNAL_LABEL)) if label.startswith(_EXTERNAL_LABEL) else None


def shape_of(name: str) -> str:
    """The type of a key that lasts, as the table above has it."""
    kind, _, rest = name.partition(":")
    if kind in ("window", "rejects"):
        return "list"
    is_set = kind == SKIPPED or (kind == "stage" and rest.partition(":")[2] in ("keys", "chunks"))
    return "set" if is_set else "hash"
