"""The chain of releases: whatever does not fit is found."""

import json
from hashlib import sha256
from typing import Any

import pytest

from shoal.core.published.chain import ReleaseChain
from shoal.core.published.manifest import Manifest, PublishedRelease, as_released
from shoal.streams.errors import GuaranteeError, InputError
from shoal.streams.published import checked_release

RECORDS = [b'{"cell":"c1"}', b'{"group":"g2"}']


def added(chain: ReleaseChain, records: list[bytes], text: bytes) -> PublishedRelease:
    """As a reader of a topic does it."""
    with checked_release():
        return chain.add(as_released(Manifest(text), records))


def manifest(number: int, previous: bytes | None, records: list[bytes], /, **changes: Any) -> bytes:
    fields = {
        "table": "t",
        "release": number,
        "format": 1,
        "previous": None if previous is None else sha256(previous).hexdigest(),
        "content": sha256(b"".join(record + b"\n" for record in records)).hexdigest(),
        "cells": sum(b"cell" in record for record in records),
        "groups": sum(b"group" in record for record in records),
    }
    return json.dumps(fields | changes).encode()


def test_releases_that_follow_each_other_are_an_unbroken_chain() -> None:
    chain = ReleaseChain("t")
    first = manifest(1, None, RECORDS)
    assert added(chain, RECORDS, first).meaning["release"] == 1
    added(chain, [], manifest(2, first, []))
    assert chain.number == 2


@pytest.mark.parametrize(
    ("records", "change", "problem"),
    [
        (RECORDS, {"release": 3}, "is missing, or out of order"),
        (RECORDS, {"release": 1}, "is missing, or out of order"),
        (RECORDS, {"previous": None}, "does not follow"),
        (RECORDS, {"previous": "00" * 32}, "does not follow"),
        (RECORDS, {"table": "other"}, "another table"),
        (RECORDS[:1], {}, "has other records"),
        (RECORDS[::-1], {}, "has other records"),
        (RECORDS, {"groups": 3}, "another number of cells and groups"),
        (RECORDS, {"cells": 0}, "another number of cells and groups"),
        (RECORDS, {"cells": None}, "another number of cells and groups"),
    ],
)
def test_a_release_that_does_not_fit_breaks_it(records: list[bytes], change: dict[str, Any], problem: str) -> None:
    chain = ReleaseChain("t")
    first = manifest(1, None, [])
    added(chain, [], first)
    with pytest.raises(GuaranteeError, match=problem):
        added(chain, records, manifest(2, first, RECORDS, **change))


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff"])
def test_a_manifest_that_is_none_breaks_it_without_being_shown(content: bytes) -> None:
    with pytest.raises(GuaranteeError, match="release 1 has a manifest that cannot be read"):
        added(ReleaseChain("t"), [], content)


@pytest.mark.parametrize(
    ("change", "written"), [({"format": 2}, "2"), ({"format": None}, "unknown"), ({"format": True}, "unknown")]
)
def test_a_release_in_another_format_is_refused_before_anything_is_made_of_it(
    change: dict[str, Any], written: str
) -> None:
    with pytest.raises(
        InputError, match=f"^release 1 is in format {written}, and this version of Shoal reads format 1 only"
    ):
        added(ReleaseChain("t"), RECORDS, manifest(1, None, RECORDS, **change))


def test_a_manifest_that_names_no_format_is_no_release() -> None:
    with pytest.raises(InputError, match=r"^release 1 is in format unknown, "):
        added(ReleaseChain("t"), [], b'{"table": "t", "release": 1, "previous": null, "groups": 0}')
