"""The digest of a shard's state, by which a snapshot proves that its records are those a release was published from.

The digest is the sum, modulo 2^256, of a keyed hash of every record: its kind, its identity and its packed fields,
before any encryption. So the order of records makes no difference. A release adds the hashes of the records that it
writes and subtracts those of the records that it replaces or removes. The cost follows the number of changes.

Why a sum is enough (Bellare and Micciancio 1997, AdHash; Clarke et al. 2003, MSet-Add-Hash). Without the secret a keyed
hash is a random function, so any other collection of records, one with a record twice included, has the same sum with
a probability of 2^-256. The quicker attacks on sums (Wagner 2002) choose among hashes that they can compute, and nobody
without the secret can compute one.

The sum is not published. Sums of two releases differ by the hashes of what changed, so everybody would see that a
person's record changed, or changed back. The manifest's record names the *proof* instead: a keyed hash of the sum, the
release, the shard, the shard's own record and the cuts. The proof is different in every release, whatever changed.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, Final

from shoal.core.randomness import Keyed
from shoal.core.state import Change, State, Stored, WholeChange
from shoal.streams.store.records import KINDS, pack

_BYTES: Final = 32
_MODULUS: Final = 1 << 8 * _BYTES
_PROOF: Final = "proof"


class StateDigest:
    """The digest of one shard, carried from release to release. `value` is its stored form."""

    def __init__(self, keyed: Keyed, value: bytes = bytes(_BYTES)) -> None:
        self._key, self._sum = _key(keyed), int.from_bytes(value)

    @classmethod
    def of_state(cls, state: State) -> "StateDigest":
        """From scratch; some microseconds a record, so in a thread."""
        made = cls(state.keyed)
        for kind in KINDS:
            made.add_all(kind.name, kind.of_state(state))
        return made

    @property
    def value(self) -> bytes:
        return (self._sum % _MODULUS).to_bytes(_BYTES)

    def adder(self, kind: str) -> Callable[[bytes, bytes], None]:
        """What adds a record of a kind, given by its field of the hash and packed."""
        return partial(self._add, blake2b(key=self._key, digest_size=_BYTES, person=kind.encode()), 1)

    def add_all(self, kind: str, records: Iterable[tuple[Any, Stored]]) -> None:
        """Add records of a kind, given as they are stored."""
        self.add_packed(kind, ((identity, pack(record)) for identity, record in records))

    def add_packed(self, kind: str, records: Iterable[tuple[Any, bytes]]) -> None:
        """The same of records that are packed."""
        add = self.adder(kind)
        for identity, packed in records:
            add(str(identity).encode(), packed)

    def leave(self, change: Change, before: State) -> None:
        """Subtract the records of the state before a release that the release replaces or takes away."""
        if isinstance(change, WholeChange):
            self._sum = 0
            return
        for kind in KINDS:
            blank = blake2b(key=self._key, digest_size=_BYTES, person=kind.name.encode())
            for identity, record in kind.of_replaced(change, before):
                self._add(blank, -1, str(identity).encode(), pack(record))

    def follow(self, change: Change, before: State) -> None:
        """All that a release does to a state."""
        self.leave(change, before)
        for kind in KINDS:
            self.add_all(kind.name, kind.of_change(change))

    def _add(self, blank: blake2b, sign: int, field: bytes, packed: bytes) -> None:
        hashed = blank.copy()
        hashed.update(field + b"\0" + packed)  # no identity has a zero byte
        self._sum += sign * int.from_bytes(hashed.digest())


def proofs_of(
    keyed: Keyed, release: int, digests: Sequence[bytes], states: Sequence[bytes], cuts: bytes | None
) -> list[str]:
    """What a release names of each shard: of its digest, its own record, packed, and the cuts of the table."""
    key = _key(keyed)
    told = ((release, shard, *mine, cuts) for shard, mine in enumerate(zip(digests, states, strict=True)))
    return [blake2b(pack(one), key=key, digest_size=_BYTES, person=_PROOF.encode()).hexdigest() for one in told]


def _key(keyed: Keyed) -> bytes:
    return keyed.derive("state")
