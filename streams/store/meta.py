"""`meta`: what Redis says of a table as a whole, and what must not change under it once it has begun."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from shoal.core.policy.meaning import meaning_of
from shoal.core.policy.policy import Policy
from shoal.core.state import ENGINE, Meta
from shoal.streams.errors import InputError
from shoal.streams.settings import Settings
from shoal.streams.store.encryption import Cipher, fingerprint
from shoal.streams.store.records import FORMAT, Counts, meta_of, pack

Identity = Mapping[str, str]
"""What must not change under a table, by its name in `meta`: policy, engine, key, seal, events.

`seal` are the fingerprints of keys of SHOAL_STATE_KEY, with commas between: in `meta` of those that values may be
under, and as an identity of those that a worker has, the one that writes first. "" stands for no encryption.
"""

PLAIN: Final = "plain"
"""Stands in `seal` while a table that was not encrypted is being encrypted."""

_CHANGED = {
    "policy": "another policy (its file or a hierarchy file means something else now)",
    "key": "another SHOAL_KEY, which cannot change, for every handle and every draw of the table is a hash of it",
    "seal": "another SHOAL_STATE_KEY, or none",
    "engine": "engine {engine}, and this is engine {ours}",
    "events": "another events topic (it was deleted and made again, or SHOAL_KAFKA names another cluster)",
}

_SET_BACK = "publish it under a new table name, or set it back"
_TO_DO = {
    "policy": "set it back, or ask for the change with `shoal policy change NEW` while a worker runs under the file as "
    "it was, and start this one once that release is out"
}


class FormatError(InputError):
    """The state in Redis was written by another version of the same engine; a rebuild writes it anew."""


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


def identity_of(settings: Settings, policy: Policy, cipher: Cipher, events_id: str) -> Identity:
    """The meaning of the policy, the engine, fingerprints of the two secrets, and Kafka's id of the events topic.

    An old broker does not tell the id, and a table begun on one has none; then it is not compared.
    """
    return {
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


def read_meta(found: Mapping[bytes, bytes], table: str) -> TableMeta:
    """The inverse of `write_meta`. Raises InputError if another engine wrote it, FormatError if another version did."""
    fields = {name.decode(): value for name, value in found.items()}
    if fields.get("format") != str(FORMAT).encode():
        written, engine = (fields.get(name, b"none").decode(errors="replace") for name in ("format", "engine"))
        if engine != ENGINE:
            raise InputError(
                f"table {table} was begun by engine {engine}, and this is engine {ENGINE}: go on with the version of "
                "Shoal that began it, or publish under a new table name"
            )
        raise FormatError(
            f"the state of table {table} in Redis has format {written}, and this version of Shoal reads "
            f"format {FORMAT}: run the version that wrote it, or rebuild"
        )
    return TableMeta(
        identity={name: fields.get(name, b"").decode() for name in _CHANGED},
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
            f"table {table} was begun under {_CHANGED['seal']}: add the key with the fingerprint {missing[0]} to "
            "SHOAL_STATE_KEY, behind the one that is to write"
        )


def check_identity(meta: TableMeta, identity: Identity, partitions: int, table: str) -> None:
    """Refuse a table that was begun under another policy, secret, engine or number of partitions. Raises InputError.

    A GuaranteeError would be as true: each of these would break a promise. But it is the operator's input that is
    wrong.
    """
    check_keys(meta.identity["seal"], identity["seal"], table)
    for name, changed in _CHANGED.items():
        was, is_now = meta.identity[name], identity[name]
        if name != "seal" and was != is_now and not (name == "events" and "" in (was, is_now)):
            reason = changed.format(engine=meta.identity["engine"], ours=identity["engine"])
            raise InputError(f"table {table} was begun under {reason}: {_TO_DO.get(name, _SET_BACK)}")
    if meta.partitions != partitions:
        raise InputError(
            f"table {table} was begun with {meta.partitions} partitions of its events topic, which has {partitions} "
            "now: a person's events would arrive in another partition"
        )
