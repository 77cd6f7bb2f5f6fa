"""What `shoal produce` makes of a file before anything is sent: JSON lines, CSV with and without a mapping."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.core.events.event import Reason, Reject
from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.files.event_lines import open_events
from shoal.streams.files.formats.csv_rows import CsvRows
from shoal.streams.files.mapping.mapping import Reads, load_mapping, plain_mapping
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.files.produce import refusal

CANARY = "canary-7f3a"
POLICY = """
table: patients
attributes:
  age: {type: int, min: 0, max: 120}
  weight: {type: float, min: 0, max: 300}
  zip: {type: category, values: ["02139", "20433"]}
sensitive: {name: disease, values: [flu, asthma, gastritis]}
privacy: {values: redrawn, k: 2, l: 2}
"""


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    (tmp_path / "policy.yaml").write_text(POLICY)
    return load_policy(tmp_path / "policy.yaml")


def events(policy: Policy, text: str, **sections: Any) -> list[dict[str, Any] | None]:
    return [line.event for line in CsvRows(policy, plain_mapping(policy, sections)).read(blocks(text))]


def blocks(text: str) -> Iterator[list[bytes]]:
    return iter([text.encode().removesuffix(b"\n").split(b"\n")] if text else [])


def test_columns_named_as_in_the_policy_need_no_mapping(policy: Policy) -> None:
    assert events(policy, "id,age,weight,zip,disease\np1,34,61.5,02139,flu\n") == [
        {"op": "insert", "id": "p1", "qid": {"age": 34, "weight": 61.5, "zip": "02139"}, "sensitive": ["flu"]}
    ]


def test_a_mapping_names_columns_values_and_the_operation(policy: Policy) -> None:
    text = "nr;change;age;kg;plz;main;other\np1;insert;34;61;20433;flu|asthma;gastritis\n"
    text += 'p1;update;;70.5;;;\n"p;1";delete;;;;;\n'
    found = events(
        policy,
        text,
        people={"id": "nr"},
        file={"op": "change", "delimiter": ";"},
        attributes={"weight": "kg", "zip": "plz"},
        sensitive={"column": ["main", "other"], "separator": "|"},
    )
    assert found == [
        {
            "op": "insert",
            "id": "p1",
            "qid": {"age": 34, "weight": 61.0, "zip": "20433"},
            "sensitive": ["flu", "asthma", "gastritis"],
        },
        {"op": "update", "id": "p1", "qid": {"weight": 70.5}},
        {"op": "delete", "id": "p;1"},
    ]


def test_a_register_row_has_no_sensitive_values(policy: Policy) -> None:
    text = "op,id,age,weight,zip,disease\nregister,p1,34,61.5,02139,flu\n"
    assert events(policy, text) == [{"op": "register", "id": "p1", "qid": {"age": 34, "weight": 61.5, "zip": "02139"}}]


def test_a_list_of_who_exists_needs_neither_operations_nor_values(policy: Policy) -> None:
    text = "id,age,weight,zip\np1,30,61.5,02139\np2,40,70,20433\n"
    assert events(policy, text, file={"registers": True}) == [
        {"op": "register", "id": "p1", "qid": {"age": 30, "weight": 61.5, "zip": "02139"}},
        {"op": "register", "id": "p2", "qid": {"age": 40, "weight": 70.0, "zip": "20433"}},
    ]


def test_in_such_a_list_a_row_may_say_otherwise(policy: Policy) -> None:
    text = "id,op,age,weight,zip\np1,deregister,,,\np2,,40,70,20433\n"
    ops = [event["op"] for event in events(policy, text, file={"registers": True}) if event]
    assert ops == ["deregister", "register"]


def test_a_field_that_is_no_number_is_refused_by_its_line_and_not_its_content(policy: Policy) -> None:
    text = f'id,age,weight,zip,disease\np1,{CANARY},1,02139,flu\np2,1,nan,02139,flu\np3,1,1\n"p\n4",1,x,02139,flu\n'
    lines = list(CsvRows(policy, plain_mapping(policy)).read(blocks(text)))
    assert [(line.number, line.event) for line in lines] == [(2, None), (3, None), (4, None), (6, None)]
    said = [line.refusal for line in lines]
    assert said == [
        "qid.age is wrong-type",
        "qid.weight is wrong-type",
        "it does not have as many fields as the header",
        "id is bad-text",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("id,age,zip,disease\n", "has no column weight"),
        ("id,id,age,weight,zip,disease\n", "has column id twice"),
        ('id,age,weight,zip,disease\n"p1"x,1,1,1,1\n', "line 2 and what follows is not CSV"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_whole(policy: Policy, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        events(policy, text)


def test_a_mapping_that_names_what_the_policy_lacks_is_refused(policy: Policy) -> None:
    with pytest.raises(InputError, match="size: is not an attribute of the policy"):
        plain_mapping(policy, {"attributes": {"size": "x"}})


MAPPING = """
people: {id: nr}
attributes:
  age: age
  weight: {column: kg, missing_value: 70}
  zip: {column: area, lookup: {"1": "02139", "2": "20433"}}
sensitive: {column: main, trim: true, no_value: [NA]}
file: {delimiter: ";"}
"""


def test_a_mapping_file_is_read_and_options_win(tmp_path: Path, policy: Policy) -> None:
    (tmp_path / "map.yaml").write_text(MAPPING)
    mapping = load_mapping(tmp_path / "map.yaml", policy, Reads.FILES, {"people": {"id": "number"}})
    text = "number;age;kg;area;main\n7;30;;2; flu\n8;30;60;3;flu\n9;30;60;1;NA\n"
    found = [(line.event, line.reject) for line in CsvRows(policy, mapping).read(blocks(text))]
    assert found == [
        ({"op": "insert", "id": "7", "qid": {"age": 30, "weight": 70.0, "zip": "20433"}, "sensitive": ["flu"]}, None),
        (None, Reject(Reason.UNKNOWN_NODE, "insert", "qid.zip")),
        (None, Reject(Reason.EMPTY, "insert", "sensitive")),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("idd: nr\n", "idd: is not a known key"),
        ("[1]\n", "must be a mapping"),
        ("id: [\n", "is not one YAML document"),
        (MAPPING.replace('";"', '";;"'), "must have at most 1 characters"),
        (MAPPING.replace("nr", "7"), "must be a list"),
        (MAPPING + "period: year\n" + MAPPING[MAPPING.index("file") :].replace("delimiter", "op"), "there twice"),
        (MAPPING.replace("age: age", "age: {column: born, convert: age}"), "needs the day on which the file is true"),
        (MAPPING.replace("age: age", "age: {column: born, unit: days}"), "is for shoal source"),
        (MAPPING.replace("column: main", "array: main"), "is for shoal source; a CSV file has columns"),
    ],
)
def test_a_wrong_mapping_file_is_refused_with_the_place(tmp_path: Path, policy: Policy, text: str, said: str) -> None:
    (tmp_path / "map.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        load_mapping(tmp_path / "map.yaml", policy, Reads.FILES)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/map.yaml:")


def test_a_row_may_ask_for_a_release_and_an_op_that_a_row_cannot_hold_is_named(policy: Policy) -> None:
    text = f"op,id,age,weight,zip,disease,at\nrelease,,,,,,2024-01-01\nexternal,,,,,,\n{CANARY},,,,,,\n"
    lines = [*CsvRows(policy, plain_mapping(policy)).read(blocks(text))]
    assert lines[0].event == {"op": "release", "at": "2024-01-01"}
    assert (lines[1].refusal or "").startswith("the op external needs more than a row can hold")
    assert lines[1].reject == Reject(Reason.UNKNOWN_OP, "external", "op")
    assert CANARY not in str(lines[2])


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"op": "insert", "id": "p1"}, None),
        ({"op": "whatever", "id": "p1"}, None),
        ({"op": "release"}, None),
        ({"op": "insert", "id": 7}, "it has no id that is text"),
        ({"op": "insert"}, "it has no id that is text"),
        ({"op": "insert", "id": ""}, "it has no id that is text"),
        ({"op": "release", "at": "soon"}, "it is bad-time"),
        ({"op": "external", "publisher": "h", "groups": []}, None),
        ({"op": "external", "groups": []}, "it has no publisher that is text"),
    ],
)
def test_only_what_could_not_be_keyed_is_refused_here(event: dict[str, Any], said: str | None) -> None:
    found = refusal(event)
    assert (found and found[0]) == said


def test_json_lines_keep_their_numbers_and_bad_ones_are_refused(tmp_path: Path, policy: Policy) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(f'\n{{"op": "delete", "id": "p1"}}\n{CANARY}\n[1]\n   \n{{"a": 1, "a": 2}}\n{{"op": "release"}}')
    with open_events(policy, str(path)) as lines:
        found = [(line.number, line.event is not None, line.refusal) for line in lines]
    assert found == [
        (2, True, None),
        (3, False, "it is bad-json"),
        (4, False, "it is not-an-object"),
        (6, False, "it is duplicate-key"),
        (7, True, None),
    ]
