"""The example data sets: small, whole, with their source named, and as their pages say."""

import csv
import gzip
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from shoal.streams.cli import shoal
from shoal.streams.files.policy_sample import findings, read_sample
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.files.true_tables import tables_at_releases
from tests.support.root import ROOT

_EXAMPLES = ROOT / "examples"
_SETS = ("adult", "synthea")


@pytest.mark.parametrize("name", _SETS)
def test_an_example_is_small_and_names_its_source_and_licence(name: str) -> None:
    files = [path for path in (_EXAMPLES / name).iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 500_000
    page = (_EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    assert "## Source and licence" in page
    assert "Apache License 2.0" in page
    for path in files:
        if path.suffix != ".csv" and path.name != "README.md":
            assert f"`{path.name}`" in page, path.name


@pytest.mark.parametrize("name", _SETS)
def test_the_commands_of_an_examples_page_exist(name: str) -> None:
    page = (_EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    calls = re.findall(r"^shoal (.+)$", page, re.MULTILINE)
    assert len(calls) >= 3
    with click.Context(shoal) as ctx:
        for call in calls:
            words = shlex.split(call)
            command = shoal.get_command(ctx, words.pop(0))
            assert command is not None
            if isinstance(command, click.Group):
                command = command.get_command(ctx, words.pop(0))
                assert command is not None
            options = {option for parameter in command.params for option in parameter.opts}
            assert {word for word in words if word.startswith("--")} <= options, call
            assert (_EXAMPLES.parent / words[0]).is_file()


def test_adult_has_everybody_and_every_label_is_in_its_hierarchy() -> None:
    policy = load_policy(_EXAMPLES / "adult" / "policy.yaml")
    with gzip.open(_EXAMPLES / "adult" / "adult.csv.gz", "rt", encoding="utf-8") as text:
        people = list(csv.DictReader(text))
    assert len(people) == 30_162
    assert list(people[0]) == ["id", *(attribute.name for attribute in policy.attributes), "occupation"]
    for attribute in policy.attributes:
        if attribute.hierarchy:
            assert {person[attribute.name] for person in people} <= attribute.hierarchy.leaf_code.keys()
    assert {person["occupation"] for person in people} == set(policy.sensitive.hierarchy.leaves)


def test_adult_becomes_events_that_all_count(tmp_path: Path) -> None:
    script = [sys.executable, str(_EXAMPLES / "adult" / "events.py"), "3000", "1000"]
    made = subprocess.run(script, capture_output=True, check=True).stdout
    lines = made.splitlines()[:6003]
    *releases, last = tables_at_releases(load_policy(_EXAMPLES / "adult" / "policy.yaml"), lines)
    # the table is a live view, so only numbers can be compared afterwards
    assert [(found.number, found.accepted) for found in releases] == [(1, 3000), (2, 4000), (3, 5000)]
    assert (last.accepted, last.rejected) == (6000, 0)


def test_synthea_is_ten_releases_of_events_that_all_count() -> None:
    policy = load_policy(_EXAMPLES / "synthea" / "policy.yaml")
    with gzip.open(_EXAMPLES / "synthea" / "events.jsonl.gz", "rb") as text:
        sizes = [len(found.table) for found in tables_at_releases(policy, text.read().splitlines())]
    assert len(sizes) == 11
    assert sizes[0] == 1245
    assert sizes[-1] == 3017


def test_policy_check_knows_what_is_hard_about_synthea(tmp_path: Path) -> None:
    policy = load_policy(_EXAMPLES / "synthea" / "policy.yaml")
    with gzip.open(_EXAMPLES / "synthea" / "events.jsonl.gz", "rb") as text:
        (tmp_path / "events.jsonl").write_bytes(text.read())
    found = list(findings(policy, read_sample(policy, str(tmp_path / "events.jsonl"))))
    assert any(finding.sentence.startswith("normal-pregnancy makes up 25.9%") for finding in found)
    (cost,) = [finding.sentence for finding in found if finding.name == "cost"]
    assert cost.startswith("at release 10 of the sample ")
    assert "of the values are *" in cost
