"""Consumers that were written for an earlier version go on working, and topics of an earlier version are understood."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import shoal
from shoal.core.schema import FORMAT
from shoal.streams.files.release_folder import read_releases
from shoal.streams.kafka.chain import Chain
from shoal.streams.kafka.manifest import Origin, manifest_headers, write_origin
from tests.support.recorded import SCHEMA_2, Recorded, consume_2, read_recorded
from tests.support.root import ROOT

WARD = ROOT / "examples" / "ward"


def publish(folder: Path, policy: str) -> list[Recorded]:
    """What this version would write to the releases topic."""
    shoal.replay(shoal.load_policy(WARD / policy), WARD / "events.jsonl", folder, key="another secret")
    found: list[Recorded] = []
    for files in read_releases(folder):
        key = f"ward/{files.number}".encode()
        headers = manifest_headers("ward", files.number, write_origin(Origin([0], files.number, "2024-03-04")))
        found += [Recorded(key, (), record) for record in files.records]
        found.append(Recorded(key, tuple(headers), files.manifest))
    return found


@pytest.mark.parametrize("policy", ["policy.yaml", "redrawn.yaml"])
def test_what_is_written_today_suits_a_consumer_of_format_2(tmp_path: Path, policy: str) -> None:
    assert FORMAT == 2, "a new format needs a recording, a schema and a consumer of its own in tests/support/recorded"
    records = publish(tmp_path / "out", policy)
    validator = Draft202012Validator(SCHEMA_2)
    for record in records:
        validator.validate(json.loads(record.value))
    shown = consume_2(records)
    assert {sum(counts.values()) > 60 for counts in shown.values()} == {True}


@pytest.mark.parametrize("version", [1, 2])
def test_recorded_topics_fit_the_schema_of_their_version(version: int) -> None:
    schema = json.loads((ROOT / "docs" / "schemas" / f"release-{version}.json").read_text(encoding="utf-8"))
    validator = Draft202012Validator(schema)
    records = read_recorded(version)
    assert len(records) > 5
    for record in records:
        validator.validate(json.loads(record.value))
    other = read_recorded(3 - version)
    assert not all(validator.is_valid(json.loads(record.value)) for record in other)


def test_a_recorded_topic_is_read_today() -> None:
    for version in (1, 2):
        chain, pending = Chain("ward"), []
        for record in read_recorded(version):
            if ("kind", b"manifest") not in record.headers:
                pending.append(record.value)
            else:
                chain.add(pending, record.value)
                pending = []
        assert chain.number == version + 1
    assert consume_2(read_recorded(2)).keys() == {1, 2, 3}


def test_the_consumer_notices_a_topic_that_broke_the_contract() -> None:
    records = read_recorded(2)
    renamed = [
        record._replace(value=record.value.replace(b'"sensitive"', b'"values"'))
        if b'"group"' in record.value
        else record
        for record in records
    ]
    for wrong in (records[1:], renamed, records[:-1]):
        with pytest.raises((AssertionError, KeyError)):
            consume_2(wrong)
