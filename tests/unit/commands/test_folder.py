"""A folder of releases: the two tables for a spreadsheet, and that a number has one content."""

import csv
import io
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from shoal.core.published.manifest import Manifest, PublishedRelease
from shoal.streams.errors import GuaranteeError, InputError
from shoal.streams.files.release_folder import ReleaseFolder, csv_line, read_releases, region_text, release_name, tables

MANIFEST = b'{"format": 1}'


def cell(name: str, region: dict[str, Any]) -> bytes:
    return json.dumps({"cell": name, "region": region, "people": 3}).encode()


def group(name: str, cells: dict[str, Any], sensitive: dict[str, int]) -> bytes:
    return json.dumps({"group": name, "cells": cells, "sensitive": sensitive}).encode()


def release(number: int, cells: list[bytes], groups: list[bytes], manifest: bytes) -> PublishedRelease:
    return PublishedRelease(number, tuple(cells), tuple(groups), Manifest(manifest))


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({"min": 20, "max": 34}, "20-34"),
        ({"min": 7, "max": 7}, "7-7"),
        ({"min": -5, "max": -1}, "-5--1"),
        ({"min": 50.0, "below": 72.5}, "[50,72.5)"),
        ({"min": 50.0, "max": 300.0}, "[50,300]"),
        ({"min": 0.1, "below": 1e16}, "[0.1,1e+16)"),
        ({"nodes": ["female"]}, "female"),
        ({"nodes": ["2043*", "2044*"]}, "2043*|2044*"),
        ({"nodes": ["*"]}, "*"),
    ],
)
def test_a_region_is_written_as_a_person_would(part: dict[str, Any], text: str) -> None:
    assert region_text(part) == text


def test_rows_has_one_line_per_row_and_values_one_per_group_and_value() -> None:
    region = {"age": {"min": 20, "max": 34}, "weight": {"min": 50.0, "below": 72.5}}
    shown = {"asthma": 2, "*": 1}
    for cells in ({"c5": 3}, {"c5": ["case", "of", "each"]}):
        rows, values = tables([cell("c5", region)], [group("g1", cells, shown)], ["age", "weight"])
        assert rows.decode() == "group,cell,age,weight\n" + 3 * 'g1,c5,20-34,"[50,72.5)"\n'
    assert values.decode() == "group,value,count\ng1,asthma,2\ng1,*,1\n"


def test_without_groups_there_are_still_headers() -> None:
    assert tables([], [], ["age"]) == (b"group,cell,age\n", b"group,value,count\n")


@pytest.mark.parametrize("field", ["plain", "a,b", 'say "hi"', "two\nlines", "re\rturn", "=1+1", "", " "])
def test_any_label_comes_back_from_csv_as_it_was(field: str) -> None:
    line = csv_line("g1", field, "1")
    assert list(csv.reader(io.StringIO(line, newline=""))) == [["g1", field, "1"]]


def test_a_release_is_unseen_until_it_is_shown(tmp_path: Path) -> None:
    folder = ReleaseFolder(tmp_path, [])
    folder.stage(release(1, [cell("c1", {})], [group("g1", {"c1": 3}, {})], MANIFEST))
    assert list(read_releases(tmp_path)) == []
    folder.show(1)
    assert list(read_releases(tmp_path)) == [release(1, [cell("c1", {})], [group("g1", {"c1": 3}, {})], MANIFEST)]
    assert [path.name for path in tmp_path.iterdir()] == ["release-0001"]


def test_the_same_content_may_be_staged_again_and_another_may_not(tmp_path: Path) -> None:
    folder = ReleaseFolder(tmp_path, [])
    for _ in range(2):
        folder.stage(release(1, [], [], b"one"))
        folder.show(1)
    with pytest.raises(GuaranteeError, match="never used for two releases"):
        folder.stage(release(1, [], [], b"two"))
    with pytest.raises(GuaranteeError, match="never used for two releases"):
        folder.stage(release(1, [cell("c1", {})], [], b"one"))
    assert (tmp_path / "release-0001" / "manifest.json").read_bytes() == b"one"


def test_after_a_restart_what_was_charged_is_shown_and_what_was_not_is_cleared(tmp_path: Path) -> None:
    folder = ReleaseFolder(tmp_path, [])
    folder.stage(release(3, [], [], b"charged"))
    folder.stage(release(4, [], [], b"not charged"))
    folder.finish(3, sha256(b"charged").hexdigest())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["release-0003"]


def test_a_staged_release_that_is_not_the_one_charged_is_never_shown(tmp_path: Path) -> None:
    folder = ReleaseFolder(tmp_path, [])
    folder.stage(release(3, [], [], b"something else"))
    folder.finish(3, sha256(b"charged").hexdigest())
    assert list(tmp_path.iterdir()) == []


def test_releases_are_read_in_order_of_their_numbers_however_many_there_are(tmp_path: Path) -> None:
    folder = ReleaseFolder(tmp_path, [])
    for number in (10000, 9999, 1):
        folder.stage(release(number, [], [], MANIFEST))
        folder.show(number)
    (tmp_path / "rejects.jsonl").touch()
    assert [one.number for one in read_releases(tmp_path)] == [1, 9999, 10000]
    assert release_name(3) == "release-0003"


@pytest.mark.parametrize("missing", ["cells.jsonl", "groups.jsonl", "manifest.json"])
def test_a_release_without_one_of_its_files_is_an_error(tmp_path: Path, missing: str) -> None:
    folder = ReleaseFolder(tmp_path, [])
    folder.stage(release(1, [], [], MANIFEST))
    folder.show(1)
    (tmp_path / "release-0001" / missing).unlink()
    with pytest.raises(InputError, match=f"has no {missing}"):
        list(read_releases(tmp_path))


def test_a_release_that_names_no_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "release-0001").mkdir()
    (tmp_path / "release-0001" / "groups.jsonl").touch()
    (tmp_path / "release-0001" / "manifest.json").write_text('{"table": "t", "release": 1, "groups": 0}')
    with pytest.raises(InputError, match=r"release-0001 is in format unknown, and this version of Shoal"):
        list(read_releases(tmp_path))
