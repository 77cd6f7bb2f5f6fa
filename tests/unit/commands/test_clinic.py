"""The made-up clinic: the same one each time, believable, and wrong only where it means to be."""

import subprocess
import sys
from collections import Counter
from importlib import resources
from pathlib import Path

from shoal.core.events.window import Intake
from shoal.core.policy.policy import Policy
from shoal.streams.demo.clinic import BAD_PER_DAY, Clinic, write_clinic
from shoal.streams.files.policy_yaml import load_policy
from tests.support.root import ROOT


def clinic_policy() -> Policy:
    return load_policy(ROOT / "streams" / "demo" / "clinic" / "policy.yaml")


def test_the_same_seed_gives_the_same_clinic_every_time_it_is_asked() -> None:
    clinic = Clinic(people=100, nights=3)
    once = list(clinic.events())
    assert once == list(clinic.events()) == list(Clinic(people=100, nights=3).events())
    assert once != list(Clinic(people=100, nights=3, seed=2).events())


def test_there_is_a_release_every_night_and_everything_happens_in_between() -> None:
    events = list(Clinic().events())
    ops = Counter(event["op"] for event in events)
    assert ops["release"] == 8
    assert 1900 <= len({event["id"] for event in events if event["op"] == "insert"}) <= 2200
    assert ops["delete"] >= 100
    moves = [event for event in events if event["op"] == "update" and "qid" in event]
    diagnoses = [event for event in events if event["op"] == "update" and "sensitive" in event]
    assert len(moves) >= 50
    assert len(diagnoses) >= 100


def test_only_the_mistakes_are_rejected() -> None:
    intake = Intake(clinic_policy(), {})
    events = (event for event in Clinic(people=200, nights=4).events() if event["op"] != "release")
    rejected = [reject for event in events if (reject := intake.take(event)) is not None]
    assert len(rejected) == 3 * BAD_PER_DAY
    assert {reject.reason for reject in rejected} <= {"unknown-id", "out-of-domain", "unknown-node", "already-present"}


def test_people_are_as_frequent_as_the_tables_say() -> None:
    events = [event for event in Clinic(people=4000, nights=1).events() if event["op"] == "insert"]
    values = Counter(value for event in events for value in event["sensitive"])  # type: ignore[attr-defined]
    assert values["viral-sinusitis"] > values["asthma"] > values["colon-cancer"]
    women = sum(event["qid"]["sex"] == "female" for event in events if "miscarriage" in event["sensitive"])  # type: ignore[index,operator]
    assert women == values["miscarriage"]
    ages = [event["qid"]["age"] for event in events if "alzheimers" in event["sensitive"]]  # type: ignore[index,operator]
    assert ages
    assert min(ages) >= 65


def test_every_condition_and_zip_of_the_tables_is_in_its_hierarchy() -> None:
    policy = clinic_policy()
    folder = resources.files("shoal.streams.demo.clinic")

    def first_column(name: str) -> list[str]:
        return [line.split(",")[0] for line in (folder / name).read_text().splitlines()[1:]]

    assert first_column("condition-frequencies.csv") == [
        line.split(";")[0] for line in (folder / "condition.csv").read_text().splitlines()
    ]
    zips = next(attribute for attribute in policy.attributes if attribute.name == "zip")
    assert zips.hierarchy is not None
    assert sorted(first_column("zip-frequencies.csv")) == sorted(zips.hierarchy.leaves)


def test_the_folder_it_writes_can_be_replayed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "shoal.streams.demo.clinic", str(tmp_path), "--people", "30", "--nights", "2"]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    assert write_clinic(tmp_path / "again", Clinic(people=30, nights=2)) == len(
        (tmp_path / "events.jsonl").read_text().splitlines()
    )
    assert load_policy(tmp_path / "policy.yaml").digest == clinic_policy().digest
