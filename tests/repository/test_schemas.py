"""docs/schemas is what the models say, and the AsyncAPI document is one."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from shoal.core.events.fields import FIELDS
from shoal.core.schema import event_schema, release_schema
from shoal.streams.cli import main
from shoal.streams.cli.policy import schema as schema_command
from shoal.streams.files.asyncapi import describe_topics
from shoal.streams.files.schemas import DOCUMENTS, write_document
from shoal.streams.kafka.topics import Topics
from tests.support.consumer import topic_records
from tests.support.root import ROOT

# From github.com/asyncapi/spec-json-schemas 6.11.1 (Apache-2.0), unchanged: schemas/3.0.0-without-$id.json.
_SPECIFICATION: dict[str, Any] = json.loads(
    gzip.decompress(Path(__file__).with_name("asyncapi-3.0.0.json.gz").read_bytes())
)


@pytest.mark.parametrize("what", DOCUMENTS)
def test_a_published_schema_is_what_the_models_say(what: str) -> None:
    published = (ROOT / "docs" / "schemas" / DOCUMENTS[what].file).read_text(encoding="utf-8")
    assert published == write_document(what), "run `make schemas`; is it still the same version?"


def test_the_command_prints_every_schema_and_writes_them_under_their_versions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (what,) = [parameter for parameter in schema_command.params if parameter.name == "what"]
    assert list(what.type.choices) == list(DOCUMENTS)  # type: ignore[attr-defined]
    assert main(["policy", "schema", "asyncapi"]) == 0
    assert capsys.readouterr().out == write_document("asyncapi")
    assert main(["policy", "schema", "--to", str(tmp_path / "all")]) == 0
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == sorted(one.file for one in DOCUMENTS.values())


def test_the_topics_are_described_in_asyncapi() -> None:
    document = describe_topics()
    validator = Draft7Validator(_SPECIFICATION)
    assert [error.message for error in validator.iter_errors(document)] == []
    addresses = {channel["address"] for channel in document["channels"].values()}
    topics = Topics("{table}")
    assert addresses == set(topics.all)  # nothing is ever written to `shards`
    for reference in _references(document):
        found: Any = document
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
    del document["info"]["version"]
    assert not validator.is_valid(document)


def test_every_op_and_every_kind_of_record_is_a_message() -> None:
    document = describe_topics()
    messages = document["components"]["messages"]
    assert set(messages) == {*FIELDS, *release_schema()["$defs"], "sealed", "deadLetter"}
    listed = [name for channel in document["channels"].values() for name in channel["messages"]]
    assert sorted(listed) == sorted(messages)
    assert set(document["channels"]["triggers"]["messages"]) == {"release", "skip", "change"}
    assert {messages[schema["title"]]["payload"]["title"] for schema in event_schema()["oneOf"]} == set(FIELDS)


def test_published_records_fit_their_messages(tmp_path: Path) -> None:
    messages = describe_topics()["components"]["messages"]
    seen = set()
    for record in topic_records(tmp_path / "out"):
        value = json.loads(record.value)
        kind = "manifest" if record.headers else "cell" if "region" in value else "group"
        Draft7Validator(messages[kind]["payload"]).validate(value)
        seen.add(kind)
    assert len(seen) == 3


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "$ref":
                yield value
            else:
                yield from _references(value)
    elif isinstance(part, list):
        for item in part:
            yield from _references(item)
