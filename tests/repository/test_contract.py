"""docs/contract.md is what the code does: its examples are read by the real readers, its tables list what there is."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from shoal.core.events.event import Reason
from shoal.core.schema import event_schema, policy_schema, release_schema
from shoal.streams.cli import main
from shoal.streams.files.rejects import rejects_beside
from shoal.streams.kafka.topics import Topics
from shoal.streams.settings import Settings
from tests.support.root import ROOT

_PAGE = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
_HEADINGS = (
    "Policy", "Events", "Rejects", "Releases", "Regions", "Groups", "Manifest", "Deltas and shards", "Private files",
    "Commands", "Settings", "Topics", "Exit codes",
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


def keys(name: str) -> set[str]:
    """The keys of a section of the policy; none where the policy has no section of that name."""
    schema = policy_schema()
    reference = schema["properties"][name].get("$ref", "")
    return set(schema["$defs"][reference.rpartition("/")[2]]["properties"]) if reference else set()


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
    document["privacy"] |= privacy
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def rejects(policy: Path, events: Path) -> list[dict[str, Any]]:
    """What `shoal replay` rejects of these events."""
    out = events.with_name("out")
    assert main(["replay", str(policy), str(events), "--out", str(out), "--seed", "secret"]) in (0, 2)
    return [json.loads(line) for line in rejects_beside(out).read_text().splitlines()]


def test_the_page_has_the_headings_that_code_cites() -> None:
    assert tuple(re.findall(r"^## (.+)$", _PAGE, re.MULTILINE)) == _HEADINGS


def test_the_policy_is_one(folder: Path) -> None:
    assert main(["policy", "check", str(write_policy(folder))]) == 0


def write_redrawn(folder: Path) -> Path:
    """The page's policy with the privacy of a redrawn table."""
    path = write_policy(folder)
    document = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(document | yaml.safe_load(examples("Policy", "yaml")[1]), sort_keys=False))
    return path


def test_the_privacy_of_a_redrawn_table_is_one(folder: Path) -> None:
    assert main(["policy", "check", str(write_redrawn(folder))]) == 0


def test_a_wrong_policy_would_be_noticed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check", str(write_policy(folder, k=0))]) == 2
    assert "must be at least 1" in capsys.readouterr().err


def test_the_policy_names_every_key_there_is() -> None:
    shown = [yaml.safe_load(text) for text in examples("Policy", "yaml")]
    for name in policy_schema()["properties"]:
        assert any(name in document for document in shown), name
        named = {key for document in shown if isinstance(document.get(name), dict) for key in document[name]}
        spared = {"values"} if name == "sensitive" else set()  # the sensitive attribute's stands in a comment
        assert keys(name) - spared <= named, name


def test_every_event_is_accepted(folder: Path, tmp_path: Path) -> None:
    (text,) = examples("Events", "json")
    events = [json.loads(line) for line in text.splitlines()]
    validator = jsonschema.Draft202012Validator(event_schema())
    for event in events:
        validator.validate(event)
    assert {event["op"] for event in events} == {
        "insert", "upsert", "update", "delete", "register", "deregister", "erase", "external", "release",
    }  # fmt: skip
    (tmp_path / "events.jsonl").write_text(text)
    assert rejects(write_redrawn(folder), tmp_path / "events.jsonl") == []
    assert (tmp_path / "out" / "release-0001" / "manifest.json").is_file()


def test_an_event_that_is_wrong_would_be_noticed(folder: Path, tmp_path: Path) -> None:
    (text,) = examples("Events", "json")
    (tmp_path / "events.jsonl").write_text(text.replace('"p18", "qid"', '"p18", "quid"'))
    assert len(rejects(write_redrawn(folder), tmp_path / "events.jsonl")) == 2


def test_every_reason_is_explained() -> None:
    assert column("Rejects") == {str(reason) for reason in Reason}


def test_a_reject_is_written_as_the_page_shows(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text(
        16 * "\n" + '{"op": "update", "id": "p1", "qid": {"age": 3}}\n{"op": "release"}\n'
    )
    (text,) = examples("Rejects", "json")
    assert rejects(write_redrawn(folder), tmp_path / "events.jsonl") == [json.loads(text)]


def test_the_records_of_a_release_fit_the_schema() -> None:
    kinds = release_schema()["$defs"]
    for heading, kind in (("Regions", "cell"), ("Groups", "group"), ("Manifest", "manifest")):
        (text,) = examples(heading, "json")
        record = json.loads(text)
        jsonschema.Draft202012Validator({**kinds[kind], "$defs": kinds}).validate(record)
        by_model = {"vacant"} if kind == "group" else set()  # a redrawn group has counterfeits
        assert set(record) == set(kinds[kind]["required"]) | by_model, heading


def test_what_deltas_and_shards_add_fits_the_schema() -> None:
    kinds = release_schema()["$defs"]
    gone, added = map(json.loads, examples("Deltas and shards", "json"))
    jsonschema.Draft202012Validator(kinds["gone"]).validate(gone)
    optional = set(kinds["manifest"]["properties"]) - set(kinds["manifest"]["required"])
    assert set(added) == optional - {"previous_policy"} | {"content"}
    for name, value in added.items():
        jsonschema.Draft202012Validator(kinds["manifest"]["properties"][name]).validate(value)
    assert set(added["shards"][0]) == set(kinds["manifest"]["properties"]["shards"]["items"]["required"])


def test_private_files_are_json() -> None:
    members, cohorts = map(json.loads, examples("Private files", "json"))
    assert list(members) == ["id", "group", "cell", "value"]
    assert list(cohorts) == ["hiv"]


def test_every_setting_and_topic_is_listed() -> None:
    assert column("Settings") == {f"SHOAL_{name.upper()}" for name in Settings.model_fields}
    topics = Topics("<table>")
    assert column("Topics") == {
        topics.events, topics.external, topics.triggers, topics.releases, topics.dead_letter, topics.shards,
    }  # fmt: skip
