"""docs/contract.md is what the code does: its examples are read by the real readers, its tables list what there is."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from shoal.core.events.event import Reason
from shoal.core.policy.document import PolicyDocument, PrivacySection
from shoal.core.schema import event_schema, release_schema
from shoal.streams.kafka.topics import Topics
from shoal.streams.settings import Settings
from tests.support.root import ROOT

_PAGE = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
_HEADINGS = (
    "Policy", "Events", "Rejects", "Releases", "Regions", "Groups", "Manifest", "Private files", "Commands",
    "Settings", "Topics", "Exit codes",
)  # fmt: skip


def section(heading: str) -> str:
    found = re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", _PAGE, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[1]


def examples(heading: str, language: str) -> list[str]:
    """The fenced blocks of one language in a section."""
    return re.findall(rf"^```{language}\n(.*?)^```$", section(heading), re.MULTILINE | re.DOTALL)


def column(heading: str) -> set[str]:
    """Every piece of code in the first column of a section's tables."""
    rows = re.findall(r"^\| ([^|]+) \|", section(heading), re.MULTILINE)
    return {code for row in rows for code in re.findall(r"`([^`]+)`", row)}


def built(privacy: dict[str, Any]) -> dict[str, Any]:
    """The keys of a privacy section that this version knows; the page is ahead of it while lasting tables are built."""
    return {key: value for key, value in privacy.items() if key in PrivacySection.model_fields}


def fields(schema: dict[str, Any]) -> set[str]:
    return set(schema["properties"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the hierarchies that the page shows."""
    for name, content in zip(("zip.csv", "disease.csv"), examples("Policy", "csv"), strict=True):
        assert f"`{name}`:" in section("Policy")
        (tmp_path / name).write_text(content)
    return tmp_path


def write_policy(folder: Path, **privacy: Any) -> Path:
    document = yaml.safe_load(examples("Policy", "yaml")[0])
    document["privacy"] = built({**document["privacy"], **privacy})
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def test_the_page_has_the_headings_that_code_cites() -> None:
    assert tuple(re.findall(r"^## (.+)$", _PAGE, re.MULTILINE)) == _HEADINGS


def test_the_policy_is_one(folder: Path) -> None:
    policy = load(write_policy(folder))
    assert (policy.table, policy.k, policy.l) == ("patients", 5, 2)


def test_the_privacy_of_a_redrawn_table_is_one(folder: Path) -> None:
    document = yaml.safe_load(examples("Policy", "yaml")[0])
    document["privacy"] = built(yaml.safe_load(examples("Policy", "yaml")[1])["privacy"])
    (folder / "policy.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    assert load(folder / "policy.yaml").k == 5


def test_a_wrong_policy_would_be_noticed(folder: Path) -> None:
    with pytest.raises(Exception, match="k: must be at least 1"):
        load(write_policy(folder, k=0))


def test_the_policy_names_every_key_there_is() -> None:
    shown = [yaml.safe_load(text) for text in examples("Policy", "yaml")]
    for name, part in PolicyDocument.model_fields.items():
        kind = part.annotation
        keys = set(getattr(kind, "model_fields", ())) - {"values"}  # stands in a comment, beside `hierarchy`
        named = {key for document in shown for key in document.get(name, {})} if keys else set()
        assert keys <= named, name


def test_every_event_is_accepted(folder: Path, tmp_path: Path) -> None:
    (text,) = examples("Events", "json")
    events = [json.loads(line) for line in text.splitlines()]
    validator = jsonschema.Draft202012Validator(event_schema())
    for event in events:
        validator.validate(event)
    assert {event["op"] for event in events} == {
        "insert", "update", "delete", "register", "deregister", "external", "release",
    }  # fmt: skip
    (tmp_path / "events.jsonl").write_text(text)
    outcome = run(write_policy(folder), tmp_path / "events.jsonl", tmp_path / "out")
    assert (outcome.releases, outcome.rejected) == (1, 0)


def test_an_event_that_is_wrong_would_be_noticed(folder: Path, tmp_path: Path) -> None:
    (text,) = examples("Events", "json")
    (tmp_path / "events.jsonl").write_text(text.replace('"p18", "qid"', '"p18", "quid"'))
    assert run(write_policy(folder), tmp_path / "events.jsonl", tmp_path / "out").rejected == 2


def test_every_reason_is_explained() -> None:
    assert column("Rejects") == {str(reason) for reason in Reason}


def test_a_reject_is_written_as_the_page_shows(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text(16 * "\n" + '{"op": "update", "id": "p1", "qid": {"age": 3}}\n')
    run(write_policy(folder), tmp_path / "events.jsonl", tmp_path / "out")
    (text,) = examples("Rejects", "json")
    assert json.loads((tmp_path / "out" / "rejects.jsonl").read_text()) == json.loads(text)


def test_the_records_of_a_release_fit_the_schema() -> None:
    schema = release_schema()
    kinds = schema["$defs"]
    if "cell" not in kinds:
        pytest.skip("this version still writes format 1; the page describes format 2")
    for heading, kind in (("Regions", "cell"), ("Groups", "group"), ("Manifest", "manifest")):
        (text,) = examples(heading, "json")
        record = json.loads(text)
        jsonschema.Draft202012Validator({**kinds[kind], "$defs": kinds}).validate(record)
        assert set(record) == fields(kinds[kind]), heading


def test_private_files_are_json() -> None:
    members, cohorts = map(json.loads, examples("Private files", "json"))
    assert list(members) == ["id", "group", "cell", "value"]
    assert list(cohorts) == ["hiv"]


def test_every_setting_and_topic_is_listed() -> None:
    assert column("Settings") == {f"SHOAL_{name.upper()}" for name in Settings.model_fields}
    topics = Topics("<table>")
    assert column("Topics") == {
        topics.events, topics.external, topics.triggers, topics.releases, topics.dead_letter,
    }  # fmt: skip


def load(path: Path) -> Any:
    from shoal.streams.files.policyfile import load_policy

    return load_policy(path)


def run(policy: Path, events: Path, out: Path) -> Any:
    from shoal.streams.files.replay import Job, replay

    return replay(Job(load(policy), str(events), out, secret=b"secret"), _Silent())


class _Silent:
    def note(self, sentence: str) -> None: ...

    def begin(self, size_bytes: int | None) -> None: ...

    def read(self, size_bytes: int) -> None: ...

    def released(self, number: int) -> None: ...
