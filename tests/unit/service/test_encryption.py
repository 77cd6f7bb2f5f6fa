"""Encryption at rest: what it hides, and what it refuses to decrypt."""

import pytest

from shoal.streams.errors import InputError
from shoal.streams.store.encryption import KeyedCipher, PlainText, fingerprint, make_cipher

CIPHER = KeyedCipher(b"a state key")


def test_without_a_key_ids_and_values_stand_as_they_are() -> None:
    cipher = make_cipher(None)
    assert isinstance(cipher, PlainText)
    field = cipher.field("pätient")
    assert cipher.decrypt(b"person", field, cipher.encrypt(b"person", field, "pätient", b"value")) == (
        "pätient",
        b"value",
    )


def test_with_a_key_neither_the_id_nor_the_value_can_be_read() -> None:
    field = CIPHER.field("canary-id")
    value = CIPHER.encrypt(b"person", field, "canary-id", b"canary-value")
    assert b"canary" not in field + value
    assert CIPHER.decrypt(b"person", field, value) == ("canary-id", b"canary-value")


def test_the_same_value_is_never_written_alike_twice_but_under_the_same_field() -> None:
    field = CIPHER.field("x")
    assert CIPHER.field("x") == field
    written = {CIPHER.encrypt(b"person", field, "x", b"v") for _ in range(100)}
    assert len(written) == 100


@pytest.mark.parametrize("what", ["kind", "field", "value", "key"])
def test_a_value_that_was_moved_or_altered_is_refused(what: str) -> None:
    field = CIPHER.field("x")
    value = CIPHER.encrypt(b"person", field, "x", b"v")
    cipher, kind = CIPHER, b"person"
    if what == "kind":
        kind = b"window"
    elif what == "field":
        field = CIPHER.field("y")
    elif what == "value":
        value = value[:-1] + bytes([value[-1] ^ 1])
    else:
        cipher = KeyedCipher(b"another key")
    with pytest.raises(InputError, match="SHOAL_STATE_KEY"):
        cipher.decrypt(kind, field, value)


def test_a_value_cut_short_is_refused_too() -> None:
    with pytest.raises(InputError):
        CIPHER.decrypt(b"person", CIPHER.field("x"), b"short")


def test_fingerprints_tell_secrets_and_tables_apart_and_hold_neither() -> None:
    prints = {fingerprint(key, table) for key in (b"one", b"two") for table in ("a", "b")}
    assert len(prints) == 4
    assert fingerprint(b"one", "a") == fingerprint(b"one", "a")
    assert KeyedCipher(b"one").fingerprint != KeyedCipher(b"two").fingerprint
