"""A long series on real services: nothing lost, nothing counted twice, and a replay of a file gives the same bytes."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest

from shoal.streams.files.rejects import rejects_beside
from shoal.streams.kafka.topics import ensure_topics
from tests.fault.scene import EVERYTHING_SIGNED
from tests.integration.mixture import GUARDS, Mixture, Sent, send
from tests.integration.replayed import is_astray, line_of, request_line
from tests.support.published import published_lines
from tests.support.services.table import KEY, REDRAWN, Published, Record, Table

Place = tuple[int, int]  # partition and offset

_FIRST = 20_000
_UNDER_LOAD = {"lasting": (40_000, 40_000, 40_000, 40_000, 18_000), "redrawn": (10_000, 8_000)}
_QUIET = (1_900, 100, 0)
# Permanent values and sampling, too; what others publish has a topic of its own and is for the fault tests.
_KINDS = {"lasting": EVERYTHING_SIGNED, "redrawn": REDRAWN}
_PARTITIONS = 8
_PEOPLE = 3_000
_STRAYS = 40  # in each batch under load


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", ["lasting", "redrawn"])
def test_every_one_of_200_000_mixed_events_counts_once_and_the_releases_are_those_of_a_replay(
    kafka: str, redis_db: str, table: str, tmp_path: Path, kind: str
) -> None:
    """A fifth as many for a redrawn table."""
    clinic = Table(kafka, redis_db, tmp_path, table, _PARTITIONS, **_KINDS[kind])
    try:
        mixture, sent = _run(clinic, Mixture(20_433, _PEOPLE, _KINDS[kind]["sensitive"]), _UNDER_LOAD[kind])
        total = sum(map(len, sent))
        assert total >= {"lasting": 200_000, "redrawn": 40_000}[kind]
        releases, events, letters = clinic.releases(), _events(clinic), clinic.read(clinic.topics.dead_letter, 0)

        bad = {place for place, (event, _) in events.items() if not sent[place[0]][event].is_good}
        counts = Counter((int(letter.headers["partition"]), int(letter.headers["offset"])) for letter in letters)
        assert counts == Counter(dict.fromkeys(bad, 1)), "not every bad event is a dead letter once, and no good one"
        assert len(bad) == mixture.counts["bad"]
        assert min(mixture.guards[form] for form in GUARDS) >= total // 5_000, "not every form of guard was among them"
        for letter in letters:
            _assert_is_the_original(letter, events[int(letter.headers["partition"]), int(letter.headers["offset"])][1])

        _assert_chain(releases)
        last = json.loads(releases[-1].manifest)
        there = last["people"] + last["withheld"] + last["unsampled"]
        assert there == len(mixture.present), "the last release is not about those present"
        assert last["carried"] > 0, "the series is too lively to show a group that is carried over"

        lines = list(_file(clinic))
        (tmp_path / "events.jsonl").write_bytes(b"".join(line + b"\n" for line, _ in lines))
        replayed, consumed = tmp_path / "replayed", tmp_path / "consumed"
        policy, file = str(clinic.policy_path), str(tmp_path / "events.jsonl")
        _succeed(clinic, "replay", policy, file, "--out", str(replayed), "--seed", KEY)
        _succeed(clinic, "releases", "--out", str(consumed))
        assert _folder(consumed) == _folder(replayed)
        assert len(_folder(replayed)) == 5 * len(releases)
        for number, release in enumerate(releases, start=1):
            folder = replayed / f"release-{number:04}"
            assert (folder / "manifest.json").read_bytes() == release.manifest
            assert published_lines(folder) == b"".join(record + b"\n" for record in release.records)
        _assert_same_rejects(rejects_beside(replayed), [place for _, place in lines], letters)
    finally:
        clinic.close()


def _run(clinic: Table, mixture: Mixture, under_load: Sequence[int]) -> tuple[Mixture, list[list[Sent]]]:
    """Send everything, ask for releases along the way, most of them while events pour in; returns when all is done."""
    asyncio.run(ensure_topics([clinic.kafka], clinic.name, _PARTITIONS, 1, within_s=30))
    worker = clinic.start(LOG_FORMAT="json")
    sent: list[list[Sent]] = [[] for _ in range(_PARTITIONS)]
    asked = 0

    def pour(records: Iterable[Sent]) -> None:
        nonlocal asked
        for all_of_it, now in zip(sent, send(clinic, records), strict=True):
            all_of_it.extend(now)
        clinic.await_releases(asked, 120)  # or requests would wait together and make one release
        asked += 1
        clinic.request(b'{"op": "release", "at": "2026-03-01T00:00:%02dZ"}' % asked)

    pour(mixture.take(_FIRST))
    clinic.await_releases(1, 120)  # from here on the homes of those who are known are settled
    strays = [mixture.stray(_PARTITIONS, clinic.home) for _ in range(_STRAYS)]
    pour(strays)
    for size in under_load:
        pour(mixture.take(size))
    clinic.await_releases(asked, 180)
    for size in _QUIET:
        pour(mixture.take(size))
        clinic.await_releases(asked, 60)
    clinic.await_dead_letters(mixture.counts["bad"], 60)
    assert worker.stop() == 0, worker.log
    return mixture, sent


def _events(clinic: Table) -> dict[Place, tuple[int, Record]]:
    """What stands on the topic, by place, with its number among what was sent to its partition."""
    return {
        (partition, record.offset): (number, record)
        for partition in range(_PARTITIONS)
        for number, record in enumerate(clinic.read(clinic.topics.events, partition))
    }


def _assert_is_the_original(letter: Record, original: Record) -> None:
    assert (letter.key, letter.value) == (original.key, original.value)
    assert letter.headers.items() >= original.headers.items()
    ours = letter.headers.keys() - original.headers.keys()
    ours = {name for name in ours if not name.startswith("ce_")}
    assert {"reason", "topic", "partition", "offset"} <= ours <= {
        "reason", "topic", "partition", "offset", "op", "field"
    }  # fmt: skip


def _assert_chain(releases: list[Published]) -> None:
    manifests = [json.loads(release.manifest) for release in releases]
    assert [manifest["release"] for manifest in manifests] == list(range(1, len(releases) + 1))
    assert manifests[0]["previous"] is None
    for before, after in pairwise(releases):
        assert json.loads(after.manifest)["previous"] == sha256(before.manifest).hexdigest()
    for release, manifest in zip(releases, manifests, strict=True):
        assert manifest["content"] == sha256(b"".join(record + b"\n" for record in release.records)).hexdigest()


def _file(clinic: Table) -> Iterator[tuple[bytes, Place | None]]:
    """The same events as lines of a file, a partition after the other in each window, with where they stood."""
    shares, rest = clinic.shares()
    assert not rest, "events are missing from the releases"
    for share in shares:
        for record in share.events:
            if not is_astray(clinic, record):
                line = line_of(record)
                yield (b"{broken", None) if line is None else (line, (record.partition, record.offset))
        yield request_line(share.release), None


def _assert_same_rejects(file: Path, places: list[Place | None], letters: list[Record]) -> None:
    """Replay rejects the same events as the worker, for the same reasons."""
    why = {
        (int(letter.headers["partition"]), int(letter.headers["offset"])): {
            name: letter.headers[name].decode() for name in ("reason", "op", "field") if name in letter.headers
        }
        for letter in letters
    }
    rejects = {reject.pop("line"): reject for reject in map(json.loads, file.read_text().splitlines())}
    for line, place in enumerate(places, start=1):
        if place is not None:
            assert rejects.get(line) == why.get(place)
    assert len({reject["reason"] for reject in rejects.values()}) >= 15, "not every kind of bad event was among them"


def _folder(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.parent != folder
    }


def _succeed(clinic: Table, *command: str) -> None:
    done = clinic.run(*command)
    assert done.returncode == 0, done.stderr
