"""Whatever is done to a series of deltas, consumers and the auditor find it, each by code of its own."""

import contextlib
import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from shoal.core.audit import Auditor, Stored
from shoal.core.audit.reading import shards, together
from shoal.core.policy.policy import Policy
from shoal.core.published.chain import ReleaseChain
from shoal.core.published.manifest import PublishedError, PublishedRelease, as_released
from shoal.core.schema import release_schema
from tests.support.histories.folded import make_series, rechain

Series = list[PublishedRelease]


@pytest.fixture(scope="module", params=[1, 3])
def series(request: pytest.FixtureRequest) -> tuple[Policy, Series]:
    return make_series(request.param)


def fold(policy: Policy, releases: Series) -> None:
    """As a consumer does."""
    chain = ReleaseChain(policy.table)
    for one in releases:
        assert chain.add(one).whole.records


def audit(policy: Policy, releases: Series) -> set[str]:
    """As an auditor does who knows no secrets."""
    auditor = Auditor(policy)
    for one in releases:
        cells, groups, gone = (b"".join(line + b"\n" for line in lines) for lines in (one.cells, one.groups, one.gone))
        auditor.see(Stored(one.number, cells, groups, one.manifest, gone))
    return {broken.sentence for broken in auditor.report(b"key").findings}


def test_nothing_is_found_in_a_series_as_it_was_published(series: tuple[Policy, Series]) -> None:
    fold(*series)
    assert audit(*series) == set()
    releases = series[1]
    deltas = [one for one in releases if not all(part["full"] for part in json.loads(one.manifest)["shards"])]
    assert len(deltas) > 2
    assert any(one.gone for one in deltas)
    quiet = [part for part in json.loads(releases[5].manifest)["shards"] if not part["full"]]
    assert quiet
    assert all(part["cells"] == part["groups"] == part["gone"] == 0 for part in quiet), "nothing changed"


def test_every_record_fits_its_schema(series: tuple[Policy, Series]) -> None:
    validator = Draft202012Validator(release_schema())
    for one in series[1]:
        for record in (*one.records, one.manifest):
            validator.validate(json.loads(record))
    wrong = json.loads(next(record for one in series[1] for record in one.gone))
    for ids in ([], ["x5"], ["c5", "c5"], [f"c{number}" for number in range(1001)], [5]):
        assert not validator.is_valid({**wrong, "gone": ids})


def _delta(releases: Series, kind: str) -> int:
    """The place of a delta in the middle that has records of a kind."""
    for place, one in enumerate(releases[2:-1], 2):
        parts = json.loads(one.manifest)["shards"]
        if not any(part["full"] for part in parts) and all(part[kind] for part in parts):
            return place
    raise AssertionError("the series has no such delta")


def _change(kind: str, change: Callable[[tuple[bytes, ...]], tuple[bytes, ...]]) -> Callable[[Series], Series]:
    def tamper(releases: Series) -> Series:
        at = _delta(releases, kind)
        records = change(getattr(releases[at], kind))
        changed: dict[str, Any] = {kind: records}
        return [*releases[:at], replace(releases[at], **changed), *releases[at + 1 :]]

    return tamper


def _leave_out_a_release(releases: Series) -> Series:
    at = _delta(releases, "groups")
    return [*releases[:at], *releases[at + 1 :]]


def _one_gone_less(records: tuple[bytes, ...]) -> tuple[bytes, ...]:
    first = re.sub(rb'"gone":\["[^"]*",?', b'"gone":[', records[0])
    return (first, *records[1:]) if b'"gone":[]' not in first else records[1:]


def _another_gone(records: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return (re.sub(rb'([cg])\d+"', rb'\g<1>99999"', records[0], count=1), *records[1:])


def _one_person_more(records: tuple[bytes, ...]) -> tuple[bytes, ...]:
    def more(match: re.Match[bytes]) -> bytes:
        return b'"people":%d}' % (int(match[1]) + 1)

    return (re.sub(rb'"people":(\d+)}', more, records[0]), *records[1:])


def _of_another_release(records: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return (re.sub(rb'"release":\d+,', b'"release":1,', records[0]), *records[1:])


TAMPERED: dict[str, Callable[[Series], Series]] = {
    "a release is left out": _leave_out_a_release,
    "a cell is left out": _change("cells", lambda records: records[1:]),
    "a group is left out": _change("groups", lambda records: records[:-1]),
    "all groups are left out": _change("groups", lambda _: ()),
    "a record of gone ids is left out": _change("gone", lambda records: records[1:]),
    "a gone id is left out": _change("gone", _one_gone_less),
    "another id is gone": _change("gone", _another_gone),
    "a cell has one person more": _change("cells", _one_person_more),
    "a record is of another release": _change("groups", _of_another_release),
    "a record stands twice": _change("groups", lambda records: (*records, records[0])),
    "a record is no JSON": _change("groups", lambda records: (b"{", *records[1:])),
    "a cell has another name": _change(
        "cells", lambda records: (re.sub(rb'"cell":"[^"]*"', b'"cell":"sx-1"', records[0]), *records[1:])
    ),
    "a record of gone ids is no JSON": _change("gone", lambda records: (b"{", *records[1:])),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_whatever_was_done_to_the_records_is_found(series: tuple[Policy, Series], name: str) -> None:
    policy, releases = series
    tampered = TAMPERED[name](releases)
    assert tampered != releases
    with pytest.raises(PublishedError) as caught:
        fold(policy, tampered)
    assert "\n" not in str(caught.value)
    assert audit(policy, tampered)


def _wrong_digest(manifest: dict[str, Any]) -> None:
    if manifest["release"] == 4:
        manifest["shards"][-1]["digest"] = "0" * 64


def _more_than_written(manifest: dict[str, Any]) -> None:
    if manifest["release"] == 3:
        manifest["shards"][0]["groups"] += 1


def _full_though_it_is_not(manifest: dict[str, Any]) -> None:
    if manifest["release"] == 3:
        manifest["shards"][0]["full"] = True


def _another_content(manifest: dict[str, Any]) -> None:
    if manifest["release"] == 3:
        manifest["content"] = "0" * 64


def _no_parts(manifest: dict[str, Any]) -> None:
    if manifest["release"] == 3:
        manifest["shards"] = "all"


@pytest.mark.parametrize(
    "change", [_wrong_digest, _more_than_written, _full_though_it_is_not, _another_content, _no_parts]
)
def test_a_manifest_that_is_not_true_is_found_though_its_chain_is_whole(
    series: tuple[Policy, Series], change: Callable[[dict[str, Any]], None]
) -> None:
    policy, releases = series
    with pytest.raises(PublishedError):
        fold(policy, rechain(releases, change))
    assert audit(policy, rechain(releases, change))


def _another_rhythm(manifest: dict[str, Any]) -> None:
    manifest["full_every"] = 5


def _another_region(manifest: dict[str, Any]) -> None:
    if manifest["release"] == 5:
        manifest["shards"][0]["region"]["age"]["max"] = 3


def _other_people(manifest: dict[str, Any]) -> None:
    if manifest["release"] == 5:
        manifest["shards"][0]["people"] += 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_another_rhythm, shards.SETTINGS),
        (_another_region, shards.REGION),
        (_other_people, shards.PEOPLE),
        (_another_rhythm, together.FULL),
    ],
)
def test_the_auditor_holds_manifests_to_the_policy_and_the_cells(
    series: tuple[Policy, Series], change: Callable[[dict[str, Any]], None], sentence: str
) -> None:
    policy, releases = series
    assert sentence in audit(policy, rechain(releases, change))


def test_shards_that_overlap_and_cells_abroad_are_found() -> None:
    policy, releases = make_series(3)

    def widen(manifest: dict[str, Any]) -> None:
        whole = {"age": {"min": 0, "max": 99}, "weight": {"min": 0.0, "max": 10.0}, "sex": {"nodes": ["*"]}}
        manifest["shards"][0]["region"] = whole

    def swap(manifest: dict[str, Any]) -> None:
        first, second, *_ = manifest["shards"]
        first["region"], second["region"] = second["region"], first["region"]

    assert shards.OVERLAP in audit(policy, rechain(releases, widen))
    assert shards.ABROAD in audit(policy, rechain(releases, swap))


def test_a_delta_that_repeats_a_record_is_found_by_the_auditor() -> None:
    policy, releases = make_series(1)
    at, chain = 5, ReleaseChain(policy.table)
    again = [chain.add(one).whole for one in releases[: at + 1]][-1].groups[0]

    def count(manifest: dict[str, Any]) -> None:
        if manifest["release"] == at + 1:
            manifest["shards"][0]["groups"] += 1

    tampered = [*releases]
    tampered[at] = replace(releases[at], groups=(*releases[at].groups, again))
    fold(policy, rechain(tampered, count))  # it does no harm
    assert audit(policy, rechain(tampered, count)) == {together.NOT_NEW}


def test_a_consumer_that_begins_too_late_says_so(series: tuple[Policy, Series]) -> None:
    policy, releases = series
    at = _delta(releases, "groups")
    chain = ReleaseChain.from_here(policy.table, releases[at].number, releases[at].head)
    late = chain.add(releases[at])
    for ask in (chain.check_whole, lambda: late.whole):
        with pytest.raises(PublishedError, match=rf"release {at + 1} has only what changed in shard 0"):
            ask()


def test_a_chain_does_not_begin_with_a_release_of_changes() -> None:
    policy, releases = make_series(1)

    def count_anew(manifest: dict[str, Any]) -> None:
        manifest["release"] -= 1

    def as_first(record: bytes) -> bytes:
        return record.replace(b'"release":2,', b'"release":1,', 1)

    second = releases[1]
    moved = replace(
        second, number=1, cells=tuple(map(as_first, second.cells)), groups=tuple(map(as_first, second.groups))
    )
    (first,) = rechain([replace(moved, gone=tuple(map(as_first, second.gone)))], count_anew)
    with pytest.raises(PublishedError, match="release 1 holds only what changed, and nothing was before it"):
        ReleaseChain(policy.table).add(first)


def test_records_that_stand_part_after_part_are_taken_apart(series: tuple[Policy, Series]) -> None:
    for one in series[1]:
        kinds, lined = [list(one.cells), list(one.groups), list(one.gone)], list[bytes]()
        for counts in one.head.parts:
            for kind, count in zip(kinds, counts, strict=True):
                lined += kind[:count]
                del kind[:count]
        assert as_released(one.head, lined) == one
        assert as_released(one.head, [*lined, b"{}"]).records == (*lined, b"{}"), "the chain says what is wrong"


JUNK: tuple[Any, ...] = (None, True, -1, 0, 10**30, 1.5, "", "0" * 64, [], [None], {}, {"shard": 0})


def _spoil_record(draw: random.Random, one: PublishedRelease) -> PublishedRelease:
    kind = draw.choice([name for name in ("cells", "groups", "gone") if getattr(one, name)])
    records = list(getattr(one, kind))
    at = draw.randrange(len(records))
    text = bytearray(records[at])
    for _ in range(draw.choice((1, 1, 3))):
        text[draw.randrange(len(text))] = draw.randrange(256)
    records[at] = draw.choice(
        (bytes(text), records[at][: draw.randrange(len(text))], b'{"gone":["c%s"]}' % (b"9" * 5000))
    )
    changed: dict[str, Any] = {kind: tuple(records)}
    return replace(one, **changed)


def _spoil_manifest(draw: random.Random, manifest: dict[str, Any]) -> None:
    field = draw.choice(("cells", "groups", "full_every", "shards", "content", "shards", "shards"))
    shards = manifest["shards"]
    if field == "shards" and shards and draw.random() < 0.8:
        part = draw.choice(shards)
        part[draw.choice(list(part))] = draw.choice(JUNK)
    else:
        manifest[field] = draw.choice(JUNK)


@pytest.mark.parametrize("seed", range(120))
def test_whatever_stands_in_a_release_is_read_or_refused(series: tuple[Policy, Series], seed: int) -> None:
    draw, (policy, releases) = random.Random(seed), series
    at = draw.choice([place for place, one in enumerate(releases) if one.records])
    if seed % 2:
        spoiled = [*releases[:at], _spoil_record(draw, releases[at]), *releases[at + 1 :]]
    else:
        number = releases[at].number
        spoiled = rechain(
            releases, lambda manifest: _spoil_manifest(draw, manifest) if manifest["release"] == number else None
        )
    with contextlib.suppress(PublishedError):
        fold(policy, spoiled)
    audit(policy, spoiled)
