"""What a sample says where a value is too frequent, and where most of it does not fit the policy."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from shoal.core.policy.hierarchy import parse_hierarchy
from shoal.core.policy.policy import Policy
from shoal.streams.cli import main
from tests.support.panel import make_panel, split_by_year
from tests.unit.policy.test_sample import LABELS, STREETS, look, people, policy


def policy_with_hierarchy(path: Path) -> Policy:
    base = policy(is_redrawn=False, streets=STREETS[:20])
    hierarchy = parse_hierarchy(path.read_text())
    return replace(base, sensitive=base.sensitive._replace(hierarchy=hierarchy))


def test_choices_about_a_frequent_value_stand_side_by_side_with_what_each_gives_up(tmp_path: Path) -> None:
    table = people()
    for number, person in enumerate(table):
        if number < 160:
            table[person]["disease"] = LABELS[0]
        elif number < 220:
            table[person]["disease"] = LABELS[1]
    (tmp_path / "d.csv").write_text("".join(f"{label};{'AB'[at % 2]};*\n" for at, label in enumerate(LABELS)))
    rules = policy_with_hierarchy(tmp_path / "d.csv")
    found = [one.removeprefix("choices: ") for one in look(tmp_path, table, rules) if one.startswith("choices: ")]
    assert found[0].startswith(f"{LABELS[0]} is 4")
    share = {one.partition(":")[0]: float(re.findall(r"([0-9.]+)%", one)[0]) for one in found[1:-1]}
    assert [*share] == ["as the policy is", "signature 6", f"{LABELS[0]} open", "all of A open"]
    assert share["signature 6"] > share["as the policy is"] > share[f"{LABELS[0]} open"]
    for one in found[3:5]:
        assert re.search(r"given up: [0-9]+ of 400 values are shown as they are, and [0-9]+ values are left", one)
    assert "helps less and gives up as much" in found[-1]
    for one in found[1:]:
        assert not one.startswith(f"{LABELS[1]} open"), "never a second value"
    assert not any(one.startswith("choices") for one in look(tmp_path, people(), rules))


def test_more_than_half_rejected_is_wrong_input_with_reasons_and_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    panel = make_panel(tmp_path)
    rules, mapping = str(tmp_path / "policy.yaml"), str(tmp_path / "map.yaml")
    check = ["policy", "check", rules, "--sample", str(panel), "--map", mapping]
    assert main(check) == 0
    assert "no trigger" not in capsys.readouterr().err, "a panel's periods make the releases"
    panel.write_text(panel.read_text().replace("-0", "/0"))
    assert main(check) == 2
    said = capsys.readouterr().err
    assert re.search(r"shoal:   [0-9,]+ × wrong-type \(qid.age\) in upsert, first on line [0-9]+", said)
    assert "more than half of the sample would be rejected: is this its policy, and its mapping?" in said
    files = [word for path in split_by_year(make_panel(tmp_path)) for word in ("--sample", str(path))]
    assert main([*check[:3], *files, *check[5:]]) == 0
