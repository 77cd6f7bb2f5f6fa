"""The keys of a table in Redis, all of them: what each holds, and how its name is made.

Every key begins with `{shoal:<table>}:`, so a table is one slot of a Redis Cluster. p is a partition of the events
topic, n a release, s a shard, b a bucket of handles, h one of the 32 hashes that a kind of record is spread over. A
*label* names a source of records: the number of an events partition, `triggers`, or `external:p`.

| key             | type | holds |
|-----------------|------|-------|
| meta            | hash | format, policy, engine, key, seal (fingerprints of SHOAL_STATE_KEY), partitions, created; |
|                 |      | while `shoal rekey` runs: rekey, the fingerprint of the key that writes; |
|                 |      | written by the seal script: release, manifest, state, counts; sent, applied: the last |
|                 |      | release on the topic, and the last that is in the keys below |
| beginning       | text | for a minute: one worker is creating this table |
| rights          |      | used, and removed again, by the script that finds out which commands are allowed |
| people:p:h      | hash | handle → person, in 32 hashes for each home partition |
| groups:h        | hash | number → group record |
| tree            | hash | node → node record |
| cliques         | hash | number → clique, which has its owners' handles and is encrypted as people are |
| externals       | hash | number → group of another publisher |
| signatures      | hash | number → signature of a lasting table |
| lasting:h       | hash | number → group of a lasting table, in 32 hashes |
| bonds           | hash | number → clique of a lasting table, encrypted as people are |
| external        | hash | p → offset up to which the external topic has been read |
| ingest          | hash | offset:p, window:p, accepted:n; token:label, floor:label; trigger, fired; |
|                 |      | at, the last time that a release has named; token:shard:s; instance:NAME |
| window:n:p:b    | list | one element a batch, {handle: delta}: the changes of the window of release n so far, of |
|                 |      | the people of bucket b (`bucket_of`); there are as many buckets as shards |
| skipped         | set  | label:offset of records that an operator has left out |
| rejects:label   | list | rejected records that are not dead letters yet |
| barrier         | hash | a release that is frozen and not sealed: release, trigger, at, given:p, given:external:p, |
|                 |      | mark:p, the barrier of partition p, and policy, if another one takes over with it; vector, |
|                 |      | the digest of everything that it is made of; and again, a mark by which ingest notices |
|                 |      | that an announced release was frozen again |
| course          | hash | a release between its vector and its end: release, vector, origin; policy, if another one |
|                 |      | takes over with it; cuts; gathered:b, how many elements a desk wrote; report:s, chunks:s, |
|                 |      | failed:s; announced, begin:s; part:s; applied:s |
| shards          | hash | state:s, counts:s and digest:s, the engine's own record of a shard, how many records it |
|                 |      | has and their digest (state_digest.py); cuts; |
|                 |      | all of the last release that is applied; stage:n:shards those of a sealed one |
| moves:n:b:s     | list | what the desk of bucket b found for shard s; moves:n:b:strays who is at home elsewhere |
| stage:n:shard:s:KEY | hash | what release n will change in KEY; gone:KEY what it takes away from it |
| stage:n:shard:s:keys | set | the staged keys that are not applied yet |
| stage:n:shard:s:chunks | set | the numbers of the staged chunks, counted by the seal |
| stage:n:outbox  | hash | the manifest and its headers, from the seal until it is sent |
| foreign:n:p     | hash | handles of people whom release n found to be at home in another partition than p |
| shard:s:KEY     |      | KEY of the current state, from people:p:h to bonds, in a table with several shards |
| beside:KEY      |      | what an upgrade will put in the place of KEY, or what one that was broken off has left |

The `meta` of a table with several shards has shards, too: how many there are. Only such a table has moves, digests and
cuts.

No key holds an id: a person is called by their handle, a keyed hash of it (core/randomness.py).

Some names are older than the words used now (`seal`, `mark:p`). The scripts in lua/ spell these names out; nothing
outside this room does. `shoal source` has keys of its own (source_book.py).
"""

from functools import cache
from zlib import crc32

HASHES = 32
TRIGGERS = "triggers"
OUTBOX = "outbox"
META, BEGINNING, INGEST, BARRIER, TREE, CLIQUES = "meta", "beginning", "ingest", "barrier", "tree", "cliques"
EXTERNALS, EXTERNAL = "externals", "external"
SIGNATURES, BONDS = "signatures", "bonds"
SKIPPED = "skipped"
COURSE, SHARDS_META = "course", "shards"
STRAYS = "strays"
GONE = "gone:"
BESIDE = "beside:"
_EXTERNAL_LABEL = "external:"


def people_key(home: int, field: bytes) -> str:
    return people_keys(home)[hash_of(field)]


def hash_of(field: bytes) -> int:
    """In which of a partition's hashes somebody is, by their handle."""
    return crc32(field) % HASHES


@cache
def people_keys(partition: int) -> tuple[str, ...]:
    return tuple(f"people:{partition}:{number}" for number in range(HASHES))


def group_key(group: int) -> str:
    return f"groups:{group % HASHES}"


def group_keys() -> list[str]:
    return [f"groups:{number}" for number in range(HASHES)]


def lasting_group_key(group: int) -> str:
    return f"lasting:{group % HASHES}"


def lasting_group_keys() -> list[str]:
    return [f"lasting:{number}" for number in range(HASHES)]


def window_key(window: int, partition: int, bucket: int = 0) -> str:
    return f"window:{window}:{partition}:{bucket}"


def bucket_of(field: bytes, buckets: int) -> int:
    """The bucket of a handle. A desk works on one bucket, and there is one for each shard."""
    return crc32(field) // HASHES % buckets


def shard_label(shard: int) -> str:
    """What the owner of a shard owns, as `Store.own` takes it."""
    return f"shard:{shard}"


def shard_key(shard: int | None, key: str) -> str:
    """A key of the state, of one shard; None for that of a table with one."""
    return key if shard is None else f"shard:{shard}:{key}"


def moves_key(release: int, bucket: int, target: int | str) -> str:
    """`target` is a shard, or STRAYS."""
    return f"moves:{release}:{bucket}:{target}"


def rejects_key(label: str) -> str:
    return f"rejects:{label}"


def staged_key(release: int, key: str, shard: int | None = None) -> str:
    """`shard` in a table with shards."""
    return f"stage:{release}:{key}" if shard is None else f"stage:{release}:shard:{shard}:{key}"


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
    if kind in ("window", "rejects", "moves"):
        return "list"
    is_set = kind == SKIPPED or (kind == "stage" and rest.rpartition(":")[2] in ("keys", "chunks"))
    return "set" if is_set else "hash"
