"""What a policy means: what may differ in its file, and what may not."""

from dataclasses import fields
from pathlib import Path

import pytest

from shoal.core.policy.meaning import FREE, meaning_of
from shoal.core.policy.policy import Policy
from shoal.streams.files.policy_yaml import load_policy

FILE = """
table: ward
attributes:
  age: {type: int, min: 0, max: 110}
  zip: {type: category, hierarchy: zip.csv}
sensitive: {name: disease, values: [flu, cold, asthma, ulcer, gout, hiv], open: [flu, cold], permanent: [hiv]}
privacy: {k: 3, l: 2}
"""
SAME = """
release: {every_events: 500, every_seconds: 60, min_seconds: 5, at: "0 3 * * *", timezone: Europe/Vienna}
snapshot: {every_releases: 24, keep: 2, to: kept}
privacy:   # what is promised
  l: 2.0
  k: 3
  values: lasting
  signature: 4
  insiders: 0
  headroom: 2
sensitive:
  open: [cold, flu]
  permanent: [hiv]
  hierarchy: disease.csv
  name: disease
attributes: {age: {max: 110, min: 0, type: int}, zip: {hierarchy: copy.csv, type: category}}
table: ward
"""
ZIP = "20433;2043*;*\n20437;2043*;*\n31000;3*;*\n"
DISEASE = "".join(f"{name};*\n" for name in ("flu", "cold", "asthma", "ulcer", "gout", "hiv"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "zip.csv").write_text(ZIP)
    (tmp_path / "copy.csv").write_text(ZIP.replace("\n", "\r\n") + "\n")
    (tmp_path / "disease.csv").write_text(DISEASE)
    return tmp_path


def read(folder: Path, text: str) -> Policy:
    (folder / "policy.yaml").write_text(text)
    return load_policy(folder / "policy.yaml")


def test_files_that_read_differently_may_mean_the_same(folder: Path) -> None:
    one, other = read(folder, FILE), read(folder, SAME)
    assert one.digest != other.digest
    assert meaning_of(one) == meaning_of(other)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("table: ward", "table: other"),
        ("max: 110", "max: 111"),
        ("type: int", "type: float"),
        ("age:", "years:"),
        ("asthma, ulcer", "ulcer, asthma"),
        ("gout,", "gout, rash,"),
        ("name: disease", "name: illness"),
        ("open: [flu, cold]", "open: [flu]"),
        ("permanent: [hiv]", "permanent: [hiv, gout]"),
        ("k: 3", "k: 4"),
        ("l: 2", "l: 1.5"),
        ("l: 2", "l: 2, headroom: 1"),
        ("l: 2", "l: 2, batch: 5"),
        ("l: 2", "l: 2, values: redrawn"),
        ("l: 2", "l: 2, values: redrawn, strategy: {name: geometric, alpha: 2}"),
        ("l: 2", "l: 2, participation: 1"),
        ("l: 2", "l: 2, sampling: 0.5"),
        ("l: 2", "l: 2, overlap: 3"),
        ("l: 2", "l: 2, search: 3"),
    ],
)
def test_what_is_promised_or_planned_is_part_of_the_meaning(folder: Path, old: str, new: str) -> None:
    assert meaning_of(read(folder, FILE)) != meaning_of(read(folder, FILE.replace(old, new, 1)))


def test_the_lines_of_a_hierarchy_are_part_of_the_meaning_and_so_is_their_order(folder: Path) -> None:
    before = meaning_of(read(folder, FILE))
    for text in (ZIP + "31001;3*;*\n", ZIP.replace("31000;3*", "31000;2043*"), "\n".join(reversed(ZIP.split()))):
        (folder / "zip.csv").write_text(text)
        assert meaning_of(read(folder, FILE)) != before


def test_a_field_is_free_only_where_it_is_listed() -> None:
    assert {field.name for field in fields(Policy)} >= FREE
