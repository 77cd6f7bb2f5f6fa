"""Sinks: each release once and in order, whole or not at all, and nothing said of a chain that broke."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from shoal.core.published.manifest import Manifest
from shoal.streams.errors import GuaranteeError, InputError
from shoal.streams.files.release_folder import read_releases
from shoal.streams.kafka.release_reader import CommittedRelease, ReleaseReader
from shoal.streams.sink.folder import FolderSink
from shoal.streams.sink.release_sink import deliver
from shoal.streams.sink.screen import LineSink, TableSink
from shoal.streams.sink.sinks import SINKS, open_sink
from tests.support.engines.series import clinic_policy


def release(number: int, rows: int = 7) -> CommittedRelease:
    meaning = {"release": number, "format": 1, "people": rows, "rows": rows, "bound": 0.5}
    return CommittedRelease(number, (), (), Manifest(json.dumps(meaning).encode()))


class Reader:
    """Releases that are on a topic, and then perhaps a broken one."""

    def __init__(self, *releases: CommittedRelease, is_broken: bool = False) -> None:
        self._releases, self._is_broken = releases, is_broken

    async def releases(self, *, follow: bool = False) -> AsyncIterator[CommittedRelease]:
        assert not follow
        for one in self._releases:
            yield one
        if self._is_broken:
            raise GuaranteeError("the chain of releases is broken")


class Noted:
    def __init__(self) -> None:
        self.said: list[Any] = []

    async def put(self, release: CommittedRelease) -> None:
        self.said.append(release.number)

    async def close(self, *, is_whole: bool) -> None:
        self.said.append(is_whole)


def reader(*releases: CommittedRelease, is_broken: bool = False) -> ReleaseReader:
    return cast(ReleaseReader, Reader(*releases, is_broken=is_broken))


async def test_every_sink_is_handed_every_release_and_told_that_it_was_the_last() -> None:
    sinks = [Noted(), Noted()]
    assert await deliver(reader(release(1), release(2)), sinks) == 2
    assert [sink.said for sink in sinks] == [[1, 2, True]] * 2


async def test_a_broken_chain_ends_the_delivery_and_a_sink_is_told() -> None:
    sink = Noted()
    with pytest.raises(GuaranteeError):
        await deliver(reader(release(1), is_broken=True), [sink])
    assert sink.said == [1, False]


async def test_a_folder_takes_a_release_twice_and_refuses_another_of_its_number(tmp_path: Path) -> None:
    for _ in range(2):
        await deliver(reader(release(1), release(2)), [FolderSink(tmp_path / "new" / "out", clinic_policy())])
    assert [one.number for one in read_releases(tmp_path / "new" / "out")] == [1, 2]
    with pytest.raises(GuaranteeError):
        await deliver(reader(release(1, rows=8)), [FolderSink(tmp_path / "new" / "out", clinic_policy())])


@pytest.mark.parametrize("is_broken", [False, True])
async def test_a_table_that_says_unbroken_is_shown_of_a_whole_chain_only(
    capsys: pytest.CaptureFixture[str], is_broken: bool
) -> None:
    if is_broken:
        with pytest.raises(GuaranteeError):
            await deliver(reader(release(1), is_broken=True), [TableSink()])
    else:
        await deliver(reader(release(1)), [TableSink()])
    assert ("unbroken" in capsys.readouterr().out) != is_broken


async def test_lines_come_under_one_heading(capsys: pytest.CaptureFixture[str]) -> None:
    await deliver(reader(release(1), release(2)), [LineSink()])
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading.split()[0] == "release"
    assert (first.split()[:3], second.split()[:3]) == (["1", "-", "7"], ["2", "-", "7"])


def test_a_sink_is_opened_by_its_scheme_and_a_folder_needs_none(tmp_path: Path) -> None:
    assert isinstance(open_sink(f"{tmp_path}/a", clinic_policy()), FolderSink)
    assert isinstance(open_sink(f"folder://{tmp_path}/b", clinic_policy()), FolderSink)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    with pytest.raises(InputError, match=", ".join(sorted(SINKS))):
        open_sink("ftp://somewhere", clinic_policy())
