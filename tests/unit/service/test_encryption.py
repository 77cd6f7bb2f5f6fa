"""Encryption at rest: what it hides, what it refuses to decrypt, and a ring of several keys."""

import msgpack
import pytest

from shoal.streams.errors import InputError
from shoal.streams.store.encryption import KeyRing, PlainText, fingerprint, make_cipher

CIPHER = KeyRing([b"a state key"])


def test_without_a_key_values_stand_as_they_are() -> None:
    cipher = make_cipher(None)
    assert isinstance(cipher, PlainText)
    assert cipher.decrypt(b"person", b"field", cipher.encrypt(b"person", b"field", b"value")) == b"value"


def test_with_a_key_the_value_cannot_be_read() -> None:
    value = CIPHER.encrypt(b"person", b"field", b"canary-value")
    assert b"canary" not in value
    assert CIPHER.decrypt(b"person", b"field", value) == b"canary-value"


def test_the_same_value_is_never_written_alike_twice() -> None:
    assert len({CIPHER.encrypt(b"person", b"field", b"v") for _ in range(100)}) == 100


@pytest.mark.parametrize("what", ["kind", "field", "value", "mark", "key", "plain"])
def test_a_value_that_was_moved_or_altered_is_refused(what: str) -> None:
    value, cipher, kind, field = CIPHER.encrypt(b"person", b"x", b"v"), CIPHER, b"person", b"x"
    if what == "kind":
        kind = b"window"
    elif what == "field":
        field = b"y"
    elif what == "value":
        value = value[:-1] + bytes([value[-1] ^ 1])
    elif what == "mark":
        value = value[:1] + bytes([value[1] ^ 1]) + value[2:]
    elif what == "key":
        cipher = KeyRing([b"another key"])
    else:
        value = b"v"
    with pytest.raises(InputError, match="SHOAL_STATE_KEY"):
        cipher.decrypt(kind, field, value)


@pytest.mark.parametrize("size", range(20))
def test_a_value_cut_short_is_refused_too(size: int) -> None:
    with pytest.raises(InputError):
        CIPHER.decrypt(b"person", b"x", CIPHER.encrypt(b"person", b"x", b"v")[:size])


def test_of_a_ring_the_first_key_writes_and_all_read() -> None:
    old, new = KeyRing([b"old"]), KeyRing([b"new"])
    ring = make_cipher(b"new, old")
    written = {key: cipher.encrypt(b"person", b"x", b"v") for key, cipher in (("old", old), ("new", new))}
    assert [ring.decrypt(b"person", b"x", value) for value in written.values()] == [b"v", b"v"]
    assert new.decrypt(b"person", b"x", ring.encrypt(b"person", b"x", b"v")) == b"v"
    assert ring.fingerprints[0] == new.fingerprints[0]
    with pytest.raises(InputError):
        new.decrypt(b"person", b"x", written["old"])


@pytest.mark.parametrize("text", [b"new,old", b"new, old", b"new\nold", b"new\r\nold\r\n", b",new,,old,"])
def test_keys_stand_with_commas_between_them_or_a_line_each(text: bytes) -> None:
    cipher = make_cipher(text)
    assert isinstance(cipher, KeyRing)
    assert cipher.fingerprints == (KeyRing([b"new"]).fingerprints[0], KeyRing([b"old"]).fingerprints[0])


def test_nothing_that_msgpack_writes_begins_as_an_encrypted_value_does() -> None:
    things = [*range(-200, 70_000, 7), 2**40, -(2**40), 1.5, None, True, False, "", "x" * 40, b"", b"x" * 300]
    things += [tuple(range(size)) for size in (0, 6, 8, 12, 20, 70_000)]
    things += [{str(key): key for key in range(size)} for size in (0, 3, 20, 70_000)]
    assert CIPHER.encrypt(b"person", b"x", b"v")[0] not in {msgpack.packb(thing)[0] for thing in things}


def test_fingerprints_tell_secrets_and_tables_apart_and_hold_neither() -> None:
    prints = {fingerprint(key, table) for key in (b"one", b"two") for table in ("a", "b")}
    assert len(prints) == 4
    assert fingerprint(b"one", "a") == fingerprint(b"one", "a")
    assert KeyRing([b"one"]).fingerprints[0] != KeyRing([b"two"]).fingerprints[0]
