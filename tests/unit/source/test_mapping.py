"""A mapping: every mistake at once, each in one sentence with its place, or what is read from where."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from shoal.core.policy.policy import Policy
from shoal.streams.cli.source import command
from shoal.streams.errors import InputError
from shoal.streams.files.mapping.document import mapping_schema
from shoal.streams.files.mapping.mapping import TableMapping, load_mapping
from shoal.streams.files.policy_yaml import Document, load_policy
from tests.support.root import ROOT

POLICY = """
table: clinic
attributes:
  age: {type: int, min: 0, max: 120}
  weight: {type: float, min: 0, max: 300}
  sex: {type: category, values: [female, male, unknown]}
sensitive: {name: disease, values: [flu, gout, asthma, healthy]}
privacy: {k: 2, l: 2, signature: 4}
"""
GOOD: dict[str, Any] = {
    "people": {"topic": "db.public.patient", "id": "id"},
    "attributes": {
        "age": {"column": "born", "convert": "age"},
        "weight": {"column": "kg"},
        "sex": {"column": "sex", "lookup": "sex.csv"},
    },
    "sensitive": {"column": "code"},
}


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "sex.csv").write_text("f,female\nm,male\n")
    return load_policy(tmp_path / "policy.yaml")


def changed(*path: str, **changes: Any) -> dict[str, Any]:
    """GOOD with some keys of one section replaced; None takes a key away."""
    document: dict[str, Any] = json.loads(json.dumps(GOOD))
    section = document
    for step in path:
        section = section.setdefault(step, {})
    for key, value in changes.items():
        section[key] = value
        if value is None:
            del section[key]
    return document


def load(folder: Path, policy: Policy, document: Any) -> TableMapping:
    path = folder / "mapping.yaml"
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document, sort_keys=False))
    return load_mapping(path, policy)


def test_a_good_mapping_names_every_column_that_is_read(tmp_path: Path, policy: Policy) -> None:
    mapping = load(tmp_path, policy, GOOD)
    assert mapping.people.columns == {"id", "born", "kg", "sex", "code"}
    assert mapping.values_table is None
    assert mapping.attributes[2].lookup == {"f": "female", "m": "male"}


def test_values_of_a_second_table_are_not_read_from_the_first(tmp_path: Path, policy: Policy) -> None:
    second = {"topic": "db.public.condition", "id": ["person"], "column": "code", "end": "until"}
    mapping = load(tmp_path, policy, {**GOOD, "sensitive": {"table": second, "none": "healthy"}})
    assert mapping.people.columns == {"id", "born", "kg", "sex"}
    assert mapping.values_table is not None
    assert mapping.values_table.columns == {"person", "code", "until"}
    assert mapping.none == "healthy"
    assert mapping.fingerprint != load(tmp_path, policy, GOOD).fingerprint


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (changed(people=None), "people: is missing"),
        (changed("people", id=None), "people.id: is missing"),
        (changed("people", id=[]), "people.id: must not be empty"),
        (changed("people", topics="x"), "people.topics: is not a known key; did you mean topic?"),
        (changed("attributes", age=None), "attributes: lacks age, which the policy has"),
        (changed("attributes", sexx={"column": "x"}), "sexx: is not an attribute of the policy; did you mean sex?"),
        (changed("attributes", "age", column=None), "attributes.age: must have either column or constant"),
        (changed("attributes", "age", constant=3), "attributes.age: must have either column or constant"),
        (changed("attributes", sex={"constant": "female", "lookup": "sex.csv"}), "lookup: is for a column"),
        (changed("attributes", sex={"constant": "woman"}), "sex.constant: is unknown-node under the policy"),
        (changed("attributes", age={"constant": 121}), "age.constant: is out-of-domain under the policy"),
        (changed("attributes", age={"constant": "old"}), "age.constant: must be a number, as the policy has it"),
        (changed("attributes", "sex", convert="year"), "sex.convert: is for numbers, and the policy has a category"),
        (changed("attributes", "age", convert="yaer"), "age.convert: must be one of age, year; did you mean year?"),
        (changed("attributes", "weight", bin=0), "weight.bin: must be more than 0"),
        (changed("attributes", "weight", missing="withold"), "must be one of reject, withhold; did you mean withhold?"),
        (changed("attributes", "weight", missing="reject", missing_value=3), "keep one of the two"),
        (changed("attributes", "sex", lookup="none.csv"), "sex.lookup: is not a CSV file that can be read"),
        (
            changed("attributes", "sex", lookup="wrong.csv"),
            "sex.lookup: leads to woman, which the policy does not have",
        ),
        (changed("attributes", "sex", lookup="long.csv"), "lookup: must have two fields on each line"),
        (changed("attributes", "sex", lookup="twice.csv"), "lookup: has a code twice"),
        (changed("sensitive", array="codes"), "sensitive: must have exactly one of column, array and table"),
        (changed("sensitive", column=None, none="flu"), "sensitive: must have exactly one of column, array and table"),
        (changed("sensitive", none="well"), "sensitive.none: is unknown-node under the policy"),
        (changed(sensitive={"table": {"topic": "t", "id": "i"}}), "sensitive.table.column: is missing"),
        (
            changed(sensitive={"table": {"topic": "db.public.patient", "id": "i", "column": "c"}}),
            "sensitive.table.topic: must not be the topic of people",
        ),
        ("people: [", "this is not one YAML document"),
        ("", "the mapping is empty"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_place(tmp_path: Path, policy: Policy, document: Any, said: str) -> None:
    (tmp_path / "wrong.csv").write_text("f,woman\n")
    (tmp_path / "long.csv").write_text("f,female,1\n")
    (tmp_path / "twice.csv").write_text("f,female\nf,male\n")
    with pytest.raises(InputError) as refused:
        load(tmp_path, policy, document)
    (line,) = str(refused.value).splitlines()
    assert said in line
    assert line.startswith(f"{tmp_path}/mapping.yaml:")


def test_every_mistake_is_listed(tmp_path: Path, policy: Policy) -> None:
    document = changed("attributes", "age", convert="yaer") | {"sensitive": {"none": "well"}}
    with pytest.raises(InputError) as refused:
        load(tmp_path, policy, document)
    assert len(str(refused.value).splitlines()) == 3


def test_the_schema_takes_good_mappings_and_refuses_others() -> None:
    validator = jsonschema.Draft202012Validator(mapping_schema())
    validator.check_schema(mapping_schema())
    validator.validate(GOOD)
    for wrong in (changed("people", id=None), changed("sensitive", array="x"), changed("attributes", "age", x=1)):
        assert not validator.is_valid(wrong)


def test_the_page_shows_a_mapping_that_the_schema_takes() -> None:
    shown = (ROOT / "docs" / "mapping.md").read_text().split("```yaml\n")[1:]
    assert len(shown) == 3
    for text in shown:
        document = Document(Path("mapping.md"), text.partition("```")[0].encode())
        jsonschema.Draft202012Validator(mapping_schema()).validate(document.content)


def test_check_says_what_is_read_from_where(tmp_path: Path, policy: Policy) -> None:
    (tmp_path / "mapping.yaml").write_text(yaml.safe_dump(GOOD))
    done = CliRunner().invoke(command, ["check", str(tmp_path / "policy.yaml"), str(tmp_path / "mapping.yaml")])
    assert done.exit_code == 0, done.output
    assert "db.public.patient is read for born, code, id, kg, sex, and for nothing else" in done.output
    assert "age         born, as full years until today, rows without it are rejected" in done.output
