"""`shoal policy check --sample`: what the data says about a policy before anything is published."""

import json
import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import shoal
from shoal.core.cuts import people_needed
from shoal.core.policy.policy import Policy, build_policy
from shoal.core.policy.strategy import ConstantRatio
from shoal.streams.cli import main
from shoal.streams.files.formats.format import FormatChoice
from shoal.streams.files.policy_sample import exposures_affordable, findings, read_sample
from shoal.streams.files.policy_summary import describe, warnings

LABELS = [f"d{number}" for number in range(30)]
STREETS = [f"street {number}" for number in range(40)]


def policy(**changes: Any) -> Policy:
    strategy = changes.get("strategy", {"name": "constant-ratio", "releases": 5})
    model: dict[str, Any] = {"values": "redrawn", "strategy": strategy}
    if not changes.get("is_redrawn", True):
        model = {"signature": changes["signature"]} if "signature" in changes else {}
    document = {
        "table": "people",
        "attributes": {
            "age": {"type": "int", "min": 0, "max": 99},
            "income": {"type": "int", "min": 0, "max": 10_000_000},
            "weight": {"type": "float", "min": 0, "max": 200},
            "sex": {"type": "category", "values": ["female", "male"]},
            "street": {"type": "category", "values": changes.get("streets", STREETS)},
        },
        "sensitive": {
            "name": "disease",
            "values": LABELS,
            "open": changes.get("open", []),
            **changes.get("sensitive", {}),
        },
        "privacy": {"k": 5, "l": changes.get("l", 2), **model},
    }
    return build_policy(document, {}, b"")


def people(count: int = 400, seed: int = 7) -> dict[str, dict[str, Any]]:
    random = Random(seed)
    return {
        f"p{number}": {
            "age": random.randrange(100),
            "income": random.randrange(0, 10_000_000, 100_000),
            "weight": float(random.randrange(40, 160)),
            "sex": random.choice(["female", "male"]),
            "street": random.choice(STREETS[:20]),
            "disease": random.choice(LABELS),
        }
        for number in range(count)
    }


def insert(person: str, record: dict[str, Any]) -> dict[str, Any]:
    qid = {name: value for name, value in record.items() if name != "disease"}
    return {"op": "insert", "id": person, "qid": qid, "sensitive": record["disease"]}


def write(path: Path, events: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(path)


def sentences(rules: Policy, source: str) -> list[str]:
    return [f"{found.name or 'warning'}: {found.sentence}" for found in findings(rules, read_sample(rules, source))]


def look(path: Path, table: dict[str, dict[str, Any]], rules: Policy | None = None) -> list[str]:
    source = write(path / "events.jsonl", [insert(person, record) for person, record in table.items()])
    return sentences(rules or policy(streets=STREETS[:20]), source)


def test_harmless_data_gets_facts_and_no_warning(tmp_path: Path) -> None:
    found = look(tmp_path, people())
    assert [sentence.split(":")[0] for sentence in found] == ["sample", "budget"]
    assert found[0].startswith("sample: 400 people; ")


def test_a_value_more_frequent_than_the_ratio_allows_is_named(tmp_path: Path) -> None:
    table = people()
    for person in list(table)[:80]:
        table[person]["disease"] = "d3"
    (warning,) = [sentence for sentence in look(tmp_path, table) if sentence.startswith("warning")]
    assert "d3 is a value of 2" in warning
    assert (
        f"more than the {1 / ConstantRatio(releases=5).target(2, 1.0, 0):.1%} that grouping alone can hide" in warning
    )
    rules = policy(open=["d3"], streets=STREETS[:20])
    assert not [sentence for sentence in look(tmp_path, table, rules) if sentence.startswith("warning")]


def test_a_permanent_value_is_too_frequent_where_not_everyone_can_have_decoys(tmp_path: Path) -> None:
    table = people()
    for number in range(250):
        table[f"p{number}"]["disease"] = "d3"
    sample = [insert(person, record) for person, record in table.items()]
    checked = policy(sensitive={"permanent": ["d3"]})
    found = [
        finding.sentence
        for finding in findings(checked, read_sample(checked, write(tmp_path / "e.jsonl", sample)))
        if "d3" in finding.sentence
    ]
    assert len(found) == 1
    assert "can be hidden for 50.0% of them at most" in found[0]


def test_many_frequent_values_are_counted_after_the_first_five(tmp_path: Path) -> None:
    found = look(tmp_path, people(), policy(l=20, streets=STREETS[:20]))
    warnings = [sentence for sentence in found if sentence.startswith("warning")]
    assert len(warnings) == 6
    assert warnings[-1] == "warning: 25 more values are too frequent to be hidden by grouping alone."


def test_an_attribute_that_is_nobody_elses_is_nearly_an_identifier(tmp_path: Path) -> None:
    table = people()
    for number, record in enumerate(table.values()):
        record["weight"] = 40 + number / 7
    (warning,) = [sentence for sentence in look(tmp_path, table) if sentence.startswith("warning")]
    assert warning.startswith("warning: weight is nearly an identifier: 100% of the people have a value that nobody")


def test_an_attribute_that_is_everybodys_tells_nothing(tmp_path: Path) -> None:
    table = people()
    for record in table.values():
        record["sex"] = "female"
    (warning,) = [sentence for sentence in look(tmp_path, table) if sentence.startswith("warning")]
    assert warning == "warning: sex is the same for 100.0% of the people, so it tells nothing; leave it out."


def test_a_domain_much_wider_than_the_data_is_noticed(tmp_path: Path) -> None:
    table = people()
    for record in table.values():
        record["income"] //= 100_000
    (warning,) = [sentence for sentence in look(tmp_path, table) if sentence.startswith("warning")]
    assert "income has a domain that is too wide: 99 % of the people lie within 0.01 % of it" in warning


def test_labels_that_nobody_has_and_long_lists_without_a_hierarchy_are_noticed(tmp_path: Path) -> None:
    found = look(tmp_path, people(), policy())
    assert any("street has 40 labels, and nobody in the sample has 50% of them" in sentence for sentence in found)
    assert any("street has 40 labels and nothing above them" in sentence for sentence in found)


def series(changed_per_release: int, releases: int = 6) -> list[dict[str, Any]]:
    random = Random(3)
    table = people()
    events = [insert(person, record) for person, record in table.items()]
    for _ in range(releases - 1):
        events.append({"op": "release"})
        for person in random.sample(list(table), changed_per_release):
            age = (table[person]["age"] + 1) % 100
            table[person]["age"] = age
            events.append({"op": "update", "id": person, "qid": {"age": age}})
    return [*events, {"op": "release"}]


def test_the_budget_is_counted_in_releases_at_the_rate_of_change_seen(tmp_path: Path) -> None:
    rules = policy(streets=STREETS[:20])
    (budget,) = [s for s in sentences(rules, write(tmp_path / "a.jsonl", series(20))) if s.startswith("budget")]
    broken = 1 - 0.95**8  # groups of 8 people, 20 of 400 change
    assert budget.startswith(f"budget: lasts about {5 / broken:.0f} releases for a person who stays and keeps a value")
    assert "5.0% of the people change or leave" in budget
    assert "a group of 8 breaks at 34% of them, and 5 groups can be paid for" in budget


def test_without_change_the_budget_lasts(tmp_path: Path) -> None:
    rules = policy(streets=STREETS[:20])
    assert any("lasts for ever" in s for s in sentences(rules, write(tmp_path / "a.jsonl", series(0))))


def test_without_two_releases_the_budget_is_unknown(tmp_path: Path) -> None:
    assert any("budget: unknown" in sentence for sentence in look(tmp_path, people()))


@pytest.mark.parametrize(
    ("strategy", "least", "most"),
    [
        ({"name": "constant-ratio", "releases": 5}, 5, 5),
        ({"name": "adaptive", "releases": 12}, 12, 12),
        ({"name": "geometric", "alpha": 3}, 5, 12),
    ],
)
def test_as_many_exposures_can_be_paid_for_as_the_strategy_foresees(
    strategy: dict[str, Any], least: int, most: int
) -> None:
    assert least <= exposures_affordable(policy(strategy=strategy)) <= most


def test_rejected_events_and_too_few_people_are_said(tmp_path: Path) -> None:
    events = [insert(person, record) for person, record in people(3).items()]
    events.append({"op": "update", "id": "nobody", "qid": {"age": 3}})
    found = sentences(policy(), write(tmp_path / "a.jsonl", events))
    assert found == [
        "warning: 1 of 4 events of the sample would be rejected:",
        "warning:   1 × unknown-id (id) in update, line 4",
        "warning: the sample leaves 3 people in the table, fewer than k, so all of them would be withheld.",
    ]


def test_too_few_people_for_the_shards_are_said(tmp_path: Path) -> None:
    sharded = replace(policy(is_redrawn=False), shards=4)
    few = people_needed(sharded) - 1
    file = write(tmp_path / "few.jsonl", [insert(person, record) for person, record in people(few).items()])
    (found,) = sentences(sharded, file)
    assert found == (
        f"warning: the sample leaves {few} people in the table, and a table of 4 shards is cut when there are "
        f"{few + 1}, so all of them would be withheld."
    )
    assert f"shards      4 regions that are planned apart, from {few + 1} people on" in describe(sharded)
    many = write(tmp_path / "many.jsonl", [insert(person, record) for person, record in people(400).items()])
    assert any(sentence.startswith("cost: at release 1 of the sample") for sentence in sentences(sharded, many))


MAPPING = """
people: {id: number}
attributes: {age: age, income: income, weight: weight, sex: sex, street: street}
sensitive: disease
"""


def csv_of(table: dict[str, dict[str, Any]], id_column: str = "id") -> str:
    names = ["age", "income", "weight", "sex", "street", "disease"]
    lines = [",".join([id_column, *names])]
    lines += [",".join([person, *(str(record[name]) for name in names)]) for person, record in table.items()]
    return "\n".join(lines) + "\n"


def test_people_can_come_as_csv_and_say_the_same(tmp_path: Path) -> None:
    table = people()
    for person in list(table)[:80]:
        table[person]["disease"] = "d3"
    (tmp_path / "people.csv").write_text(csv_of(table))
    rules = policy(streets=STREETS[:20])
    assert sentences(rules, str(tmp_path / "people.csv")) == look(tmp_path, table)


def test_a_mapping_names_the_columns_and_lines_that_are_no_people_are_counted(tmp_path: Path) -> None:
    text = csv_of(people(), "number").replace("p3,", "p3,x", 1)
    (tmp_path / "people.csv").write_text(text)
    (tmp_path / "map.yaml").write_text(MAPPING)
    sample = read_sample(policy(), str(tmp_path / "people.csv"), FormatChoice(mapping=tmp_path / "map.yaml"))
    assert (len(sample.table), sample.rejects.total) == (399, 1)


def test_the_command_prints_facts_and_warns_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.yaml").write_text(
        "table: people\nattributes: {age: {type: int, min: 0, max: 99}}\n"
        f"sensitive: {{name: disease, values: [{', '.join(LABELS)}]}}\nprivacy: {{values: redrawn, k: 5, l: 2}}\n"
    )
    events = [
        {"op": "insert", "id": f"canary-{number}", "qid": {"age": number % 100}, "sensitive": "d1"}
        for number in range(50)
    ]
    source = write(tmp_path / "a.jsonl", events)
    assert main(["policy", "check", str(tmp_path / "policy.yaml"), "--sample", source]) == 0
    shown = capsys.readouterr()
    assert "sample      50 people; 100% are the only one" in shown.out
    assert "shoal: warning: d1 is a value of 100.0% of the people" in shown.err
    assert "canary" not in shown.out + shown.err


@pytest.mark.parametrize("name", ["missing.jsonl", "missing.csv"])
def test_a_sample_that_is_not_there_is_said_in_a_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(Exception, match="cannot be read: No such file"):
        read_sample(policy(), str(tmp_path / name))


def test_in_a_lasting_table_there_is_no_budget_and_one_value_in_four_can_be_hidden(tmp_path: Path) -> None:
    rules, table = policy(is_redrawn=False, streets=STREETS[:20]), people()
    even = look(tmp_path, table, rules)
    assert not any("budget" in sentence or "protected values" in sentence for sentence in even)
    for person in list(table)[:160]:
        table[person]["disease"] = LABELS[0]
    found = look(tmp_path, table, rules)
    (warning,) = (sentence for sentence in found if "of the protected values, more than" in sentence)
    assert warning.startswith(f"warning: {LABELS[0]} makes up 4")
    assert "more than one in 4, so some of them will be shown as *" in warning
    opened = policy(is_redrawn=False, streets=STREETS[:20], open=[LABELS[0]])
    assert not any("protected values" in sentence for sentence in look(tmp_path, table, opened))


def shares(found: list[str]) -> list[float]:
    """The shares of *, of values that wait and of withheld people that a finding foresees."""
    (cost,) = [sentence for sentence in found if sentence.startswith("cost: ")]
    return [float(share) for share in re.findall(r"([0-9.]+)%", cost)]


def test_a_lasting_policy_says_what_it_will_cost(tmp_path: Path) -> None:
    rules, table = policy(is_redrawn=False, streets=STREETS[:20]), people()
    starred, waiting, withheld = shares(look(tmp_path, table, rules))
    assert starred < 2
    assert waiting <= starred
    assert withheld < 5
    for person in list(table)[:240]:
        table[person]["disease"] = LABELS[0]
    assert shares(look(tmp_path, table, rules))[0] > 40, "three in five have one value, and one in four can be shown"


def test_a_lasting_policy_says_which_differences_a_release_will_show(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    rules = policy(is_redrawn=False, streets=STREETS[:20])
    source = write(tmp_path / "a.jsonl", series(20))
    answers = [sentence for sentence in sentences(rules, source) if sentence.startswith("answers: ")]
    assert len(answers) > 1
    (by_age,) = [one for one in answers if one.startswith("answers: by age, in ")]
    said = dict(one.rsplit(" ", 1) for one in by_age.split("so many points on: ")[1].split(", "))
    table = shoal.replay(rules, source, key="policy check").releases[-1].table(rows="age")
    table["points"] = 50 * (table["likely_high"] - table["likely_low"]) / table["people"]
    points = table.groupby("disease")["points"].median()
    assert len(said) > 1
    for value, number in said.items():
        assert float(number) == pytest.approx(points[value], rel=0.06)


def test_the_cost_is_that_of_the_releases_that_replay_makes(tmp_path: Path) -> None:
    rules = policy(is_redrawn=False, streets=STREETS[:20])
    sample = read_sample(rules, write(tmp_path / "a.jsonl", series(20)))
    assert sample.forecast is not None
    made = shoal.replay(rules, tmp_path / "a.jsonl", key="policy check").releases[-1].manifest
    assert sample.forecast.manifest is not None
    assert {**sample.forecast.manifest, "published_at": None} == {**made, "published_at": None}


def sickness(lost: dict[str, str]) -> list[dict[str, Any]]:
    """Four releases; before each of the last three, a third of those with a key of `lost` get its value instead."""
    table = people()
    events = [insert(person, record) for person, record in table.items()]
    for turn in range(3):
        events.append({"op": "release"})
        for number, (person, record) in enumerate(table.items()):
            if number % 3 == turn and record["disease"] in lost:
                record["disease"] = lost[record["disease"]]
                events.append({"op": "update", "id": person, "sensitive": record["disease"]})
    return [*events, {"op": "release"}]


def test_a_value_that_nobody_lost_while_others_were_lost_may_be_permanent(tmp_path: Path) -> None:
    rules = policy(is_redrawn=False, streets=STREETS[:20])
    others = dict.fromkeys(LABELS[2:], LABELS[0])
    source = write(tmp_path / "a.jsonl", sickness(others))
    (found,) = [s for s in sentences(rules, source) if "permanent: [" in s]
    assert found.startswith(f"suggested: permanent: [{LABELS[0]}, {LABELS[1]}], if they are never lost in truth")
    named = policy(is_redrawn=False, streets=STREETS[:20], sensitive={"permanent": LABELS[:2]})
    assert not any("permanent: [" in s for s in sentences(named, source))
    still = write(tmp_path / "b.jsonl", series(5))
    assert not any("permanent: [" in s for s in sentences(rules, still)), "nobody's value changed, which says nothing"


def test_a_sample_suggests_a_signature_that_comes_out_even(tmp_path: Path) -> None:
    table = people()
    wide = [s for s in look(tmp_path, table, policy(is_redrawn=False, streets=STREETS[:20])) if "signature: " in s]
    assert wide[0].startswith("suggested: signature: up to 8, to say less about each value")
    for person in list(table)[:160]:
        table[person]["disease"] = LABELS[0]
    found = look(tmp_path, table, policy(is_redrawn=False, streets=STREETS[:20], signature=6))
    assert any(s.startswith("suggested: signature: 4, for fewer * than with 6") for s in found)
    assert not any("open: [" in s for s in found), "opening the most frequent value is a choice among others"


def test_permanent_values_of_a_lasting_table_are_compared_with_each_other(tmp_path: Path) -> None:
    table = people()
    for person in list(table)[:40]:
        table[person]["disease"] = "d3"
    rules = policy(is_redrawn=False, streets=STREETS[:20], sensitive={"permanent": LABELS[:6]})
    (found,) = [s for s in look(tmp_path, table, rules) if "of the permanent values" in s]
    assert found.startswith("warning: d3 makes up ")


def test_too_few_protected_values_for_a_signature_are_warned_of() -> None:
    few = list(warnings(policy(is_redrawn=False, open=LABELS[3:])))
    assert any(sentence.startswith("3 values are neither open nor permanent, fewer than the 4") for sentence in few)
    assert not any("of a signature" in sentence for sentence in warnings(policy(is_redrawn=False, open=LABELS[4:])))
    assert not any("of a signature" in sentence for sentence in warnings(policy(open=LABELS[3:])))


def test_a_policy_in_words_says_which_model_it_has() -> None:
    lasting, redrawn = ("\n".join(describe(policy(is_redrawn=redrawn))) for redrawn in (False, True))
    assert "shown among the same 4 values for ever" in lasting
    assert "a new value is * until 16 wait" in lasting
    assert "strategy" not in lasting
    assert "strategy    constant-ratio, 5 exposures foreseen" in redrawn
    assert "signature" not in redrawn
