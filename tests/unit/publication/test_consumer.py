"""A consumer that was written from the contract alone understands what is published, and notices what breaks it."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from shoal.core.published.manifest import FORMAT
from tests.support.consumer import consume, topic_records
from tests.support.root import ROOT


@pytest.mark.parametrize("policy", ["policy.yaml", "redrawn.yaml"])
def test_what_is_published_suits_the_schema_and_a_consumer_of_the_contract(tmp_path: Path, policy: str) -> None:
    records = topic_records(tmp_path / "out", policy)
    schema = json.loads((ROOT / "docs" / "schemas" / f"release-{FORMAT}.json").read_text(encoding="utf-8"))
    validator = Draft202012Validator(schema)
    for record in records:
        validator.validate(json.loads(record.value))
    shown = consume(records)
    assert {sum(counts.values()) > 60 for counts in shown.values()} == {True}


def test_the_consumer_notices_a_topic_that_broke_the_contract(tmp_path: Path) -> None:
    records = topic_records(tmp_path / "out")
    renamed = [
        record._replace(value=record.value.replace(b'"sensitive"', b'"values"'))
        if b'"group"' in record.value
        else record
        for record in records
    ]
    for wrong in (records[1:], renamed, records[:-1]):
        with pytest.raises((AssertionError, KeyError)):
            consume(wrong)
