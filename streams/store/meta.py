"""`meta`: what Redis says of a table as a whole, and what must not change under it once it has begun."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from shoal.core.migrations import FORMAT, Layout
from shoal.core.policy.meaning import meaning_of
from shoal.core.policy.policy import Policy
from shoal.core.state import ENGINE, Meta
from shoal.streams.errors import InputError
from shoal.streams.settings import Settings
from shoal.streams.store.encryption import Cipher, fingerprint
from shoal.streams.store.records import Counts, meta_of, pack

Identity = Mapping[str, str]
"""What must not change under a table, by its name in `meta`: values, policy, engine, key, seal, events, and shards, if
there are several.

`seal` are the fingerprints of keys of SHOAL_STATE_KEY, with commas between: in `meta` of those that values may be
under, and as an identity of those that a worker has, the one that writes first. "" stands for no encryption.
"""

PLAIN: Final = "plain"
"""Stands in `seal` while a table that was not encrypted is being encrypted."""

_CHANGED = {
    "values": "values: {was}, and this policy says {now}",
    "shards": "shards: {was}, and this policy says {now}",
    "policy": "another policy (its file or a hierarchy file means something else now)",
    "key": "another SHOAL_KEY, which cannot change, for every handle and every draw of the table is a hash of it",
    "events": "another events topic (it was deleted and made again, or SHOAL_KAFKA names another cluster)",
}
_IDENTITY = (*_CHANGED, "seal", "engine")
_MAY_LACK = "events"  # a table that was begun without it is not compared
_ABSENT = {"shards": "1"}
_SET_BACK = "publish it under a new table name, or set it back"
_TO_DO = {
    "values": "what was shown under one model cannot be counted under the other, because redrawn groups were formed "
    "without signatures, and signatures are for ever; set it back, or publish under a new table name",
    "shards": f"a table keeps the number of shards that it was begun with; {_SET_BACK}",
    "policy": "set it back, or ask for the change with `shoal policy change NEW` while a worker runs under the file as "
    "it was, and start this one once that release is out",
}


class FormatError(InputError):
    """The state in Redis has another format, or was made by another engine."""


@dataclass(frozen=True, kw_only=True)
class TableMeta:
    """What Redis says of a table. `sealed` is the engine's own record of the last sealed release."""

    identity: Identity
    partitions: int
    created: float
    release: int
    manifest: str | None
    sent: int
    applied: int
    sealed: Meta
    counts: Counts

    @property
    def shards(self) -> int:
        return int(self.identity["shards"] or 1)


def identity_of(settings: Settings, policy: Policy, cipher: Cipher, events_id: str) -> Identity:
    """The meaning of the policy, the engine, fingerprints of the two secrets, and Kafka's id of the events topic.

    An old broker does not tell the id, and a table begun on one has none; then it is not compared.
    """
    return {
        "values": policy.values,
        **({"shards": str(policy.shards)} if policy.shards > 1 else {}),
        "policy": meaning_of(policy),
        "engine": ENGINE,
        "key": fingerprint(settings.key_bytes, policy.table),
        "seal": ",".join(cipher.fingerprints),
        "events": events_id,
    }


def write_meta(
    identity: Identity, partitions: int, created: float, sealed: Meta, counts: Counts
) -> dict[str, str | bytes]:
    """The fields of a table whose last release is sent and applied."""
    release = str(sealed.release)
    return {
        "format": str(FORMAT),
        **identity,
        "seal": identity["seal"].split(",")[0],  # the key that writes; everything is written anew here
        "partitions": str(partitions),
        "created": repr(created),
        "release": release,
        "manifest": sealed.manifest or "",
        "sent": release,
        "applied": release,
        "state": pack(tuple(sealed)),
        "counts": str(counts),
    }


def layout_of(found: Mapping[bytes, bytes]) -> Layout:
    """The format and the engine of a table, by its `meta`."""
    number = found.get(b"format", b"")
    return Layout(int(number) if number.isdigit() else 0, found.get(b"engine", b"none").decode(errors="replace"))


def other_version(layout: Layout, table: str) -> FormatError:
    """What to say of a table that this version does not work on."""
    to_do = "stop its workers and run `shoal upgrade`" if layout.is_known else "run the version that wrote it"
    return FormatError(
        f"table {table} in Redis has format {layout.number} of engine {layout.engine}, and this version of Shoal has "
        f"format {FORMAT} of engine {ENGINE}: {to_do}"
    )


def read_meta(found: Mapping[bytes, bytes], table: str) -> TableMeta:
    """The inverse of `write_meta`. Raises FormatError for another format."""
    layout = layout_of(found)
    if not layout.is_current:
        raise other_version(layout, table)
    return parse_meta(found)


def parse_meta(found: Mapping[bytes, bytes]) -> TableMeta:
    """The same in any format that is known."""
    fields = {name.decode(): value for name, value in found.items()}
    return TableMeta(
        identity={name: fields.get(name, b"").decode() for name in _IDENTITY},
        partitions=int(fields["partitions"]),
        created=float(fields["created"]),
        release=int(fields["release"]),
        manifest=fields["manifest"].decode() or None,
        sent=int(fields["sent"]),
        applied=int(fields["applied"]),
        sealed=meta_of(fields["state"]),
        counts=Counts(*map(int, fields["counts"].split())),
    )


def check_keys(sealed: str, ours: str, table: str) -> None:
    """Refuse keys with which some values cannot be read; both are fingerprints as in `seal`. Raises InputError."""
    needed, known = sealed.split(","), ours.split(",")
    if PLAIN in needed:
        raise InputError(f"table {table} is half encrypted: run `shoal rekey` again before its workers start")
    if sealed == "" and sealed not in known:
        raise InputError(
            f"table {table} is not encrypted: stop its workers and run `shoal rekey`, which encrypts it, or leave "
            "SHOAL_STATE_KEY unset"
        )
    if missing := [one for one in needed if one not in known]:
        raise InputError(
            f"table {table} was begun under another SHOAL_STATE_KEY, or none: add the key with the fingerprint "
            f"{missing[0]} to SHOAL_STATE_KEY, behind the one that is to write"
        )


def check_identity(meta: TableMeta, identity: Identity, partitions: int, table: str) -> None:
    """Refuse a table that was begun under another policy, secret, engine or number of partitions. Raises InputError.

    A GuaranteeError would be as true: each of these would break a promise. But it is the operator's input that is
    wrong.
    """
    check_keys(meta.identity["seal"], identity["seal"], table)
    if meta.identity["engine"] != identity["engine"]:
        raise other_version(Layout(FORMAT, meta.identity["engine"]), table)
    for name, changed in _CHANGED.items():
        was, is_now = (found.get(name) or _ABSENT.get(name, "") for found in (meta.identity, identity))
        if was != is_now and not (name == _MAY_LACK and "" in (was, is_now)):
            reason = changed.format(was=was, now=is_now)
            raise InputError(f"table {table} was begun under {reason}: {_TO_DO.get(name, _SET_BACK)}")
    if meta.partitions != partitions:
        raise InputError(
            f"table {table} was begun with {meta.partitions} partitions of its events topic, which has {partitions} "
            "now: a person's events would arrive in another partition"
        )
