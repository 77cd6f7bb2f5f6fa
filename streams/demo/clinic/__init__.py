"""A small made-up clinic: the stream of change events behind `shoal demo` and the examples.

Every patient is drawn here, by a seeded generator, from small tables in this folder:

- `condition-frequencies.csv`: how often a condition begins, by sex and age, and the median number of days until it ends
  (empty: it does not);
- `zip-frequencies.csv`: how many patients live where;
- `condition.csv` and `zip.csv`: the hierarchies, put together by hand.

The counts are sums over the synthetic (never real) patients of two public Synthea data sets: 5,682 patients made for
Minnesota (stevejohnson2001/dswg) and 1,000 made for California (IBM/cpd-workshop-health-care, Apache-2.0). None of
those patients is in here.

A patient is in the table while the clinic treats them: the length of their condition and a follow-up of some weeks, or,
for a condition that does not end, a quarter of a year. The clinic publishes every night, so between two releases some
people arrive, some leave, some get another diagnosis, some move house, and a few events are plainly wrong.
"""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from importlib import resources
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import TypeVar

from shoal.streams.files.fresh_file import write_fresh

FILES = ("policy.yaml", "condition.csv", "zip.csv")
FIRST_NIGHT = datetime(2024, 3, 4, 3, 0, tzinfo=UTC)
FOLLOW_UP_DAYS = 30
OPEN_ENDED_DAYS = 90
NEW_PER_DAY = 0.025
DIAGNOSED_PER_DAY = 0.012
MOVED_PER_DAY = 0.006
BAD_PER_DAY = 3
COLDS = {"viral-sinusitis", "viral-pharyngitis", "acute-bronchitis"}
STAY_AT_HOME = 4  # one in so many people with a cold comes to the clinic

Event = dict[str, object]
T = TypeVar("T")


@dataclass
class Patient:
    """What the generator remembers of a patient."""

    age: int
    sex: str
    zip: str
    conditions: list[str]
    leaves: float


@dataclass
class Clinic:
    """The whole stream: `people` in the table on the first night, then `nights - 1` further releases."""

    people: int = 1700
    nights: int = 8
    seed: int = 20433
    _random: Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    def events(self) -> Iterator[Event]:
        """Yields every event in order, with a `release` at the end of each night. Each call yields the same events."""
        self._random = Random(self.seed)
        present: dict[str, Patient] = {}
        arrived = 0
        for night in range(self.nights):
            newcomers = self.people
            if night > 0:
                newcomers = round(self.people * NEW_PER_DAY * self._random.uniform(0.8, 1.2))
                yield from self._leave(present, night)
                yield from self._diagnose(present)
                yield from self._move(present)
                yield from self._mistakes(present)
            for number in range(arrived + 1, arrived + newcomers + 1):
                yield self._arrive(present, number, night)
            arrived += newcomers
            yield {"op": "release", "at": (FIRST_NIGHT + timedelta(days=night)).isoformat().replace("+00:00", "Z")}

    def _arrive(self, present: dict[str, Patient], number: int, night: int) -> Event:
        patient = self._draw(night)
        present[name_of(number)] = patient
        return {
            "op": "insert",
            "id": name_of(number),
            "qid": {"age": patient.age, "sex": patient.sex, "zip": patient.zip},
            "sensitive": list(patient.conditions),
        }

    def _leave(self, present: dict[str, Patient], night: int) -> Iterator[Event]:
        for name in [name for name, patient in present.items() if patient.leaves <= night]:
            del present[name]
            yield {"op": "delete", "id": name}

    def _diagnose(self, present: dict[str, Patient]) -> Iterator[Event]:
        """Some patients get another diagnosis, instead of the one they had or beside it."""
        for name in self._some(present, DIAGNOSED_PER_DAY):
            patient = present[name]
            found = self._condition(patient.sex, patient.age)
            patient.conditions = [found] if self._random.random() < 0.6 else sorted({*patient.conditions, found})
            yield {"op": "update", "id": name, "sensitive": list(patient.conditions)}

    def _move(self, present: dict[str, Patient]) -> Iterator[Event]:
        for name in self._some(present, MOVED_PER_DAY):
            present[name].zip = self._pick(*self._zips)
            yield {"op": "update", "id": name, "qid": {"zip": present[name].zip}}

    def _mistakes(self, present: dict[str, Patient]) -> list[Event]:
        """Wrong events, such as every source system sends now and then; each is rejected."""
        name = self._random.choice(list(present))
        patient = present[name]
        qid = {"age": patient.age, "sex": patient.sex, "zip": patient.zip}
        wrong: list[Event] = [
            {"op": "update", "id": "nobody", "qid": {"zip": patient.zip}},
            {"op": "update", "id": name, "qid": {"age": 215}},
            {"op": "update", "id": name, "qid": {"zip": "00000"}},
            {"op": "insert", "id": name, "qid": qid, "sensitive": patient.conditions},
            {"op": "update", "id": name, "sensitive": "unknown-to-science"},
        ]
        return self._random.sample(wrong, BAD_PER_DAY)

    def _draw(self, night: int) -> Patient:
        """Draws a patient. One of the first night came at any time before it, so part of the stay is over."""
        condition, sex, low, high = self._pick(*self._cases)
        age = self._random.randint(low, high)
        days = self._days[condition]
        stay = OPEN_ENDED_DAYS if days is None else min(days, OPEN_ENDED_DAYS) + FOLLOW_UP_DAYS
        length = stay * self._random.uniform(0.5, 1.5)
        leaves = length * self._random.random() + 1 if night == 0 else night + length
        conditions = {condition}
        if self._random.random() < 0.15:
            conditions.add(self._condition(sex, age))
        return Patient(age, sex, self._pick(*self._zips), sorted(conditions), leaves)

    def _condition(self, sex: str, age: int) -> str:
        """Draws one more condition for a patient of this sex and age."""
        cases, totals = self._cases
        while True:  # about one case in ten is of the right sex and age
            condition, of_sex, low, high = self._pick(cases, totals)
            if of_sex == sex and low <= age <= high:
                return condition

    def _some(self, present: dict[str, Patient], share: float) -> list[str]:
        return self._random.sample(list(present), round(len(present) * share))

    def _pick(self, choices: list[T], totals: list[int]) -> T:
        return self._random.choices(choices, cum_weights=totals)[0]

    @cached_property
    def _days(self) -> dict[str, int | None]:
        rows = _table("condition-frequencies.csv")
        return {row["condition"]: int(row["days"]) if row["days"] else None for row in rows}

    @cached_property
    def _cases(self) -> tuple[list[tuple[str, str, int, int]], list[int]]:
        """(condition, sex, lowest age, highest age) and the running total of how often each occurs."""
        cases, counts = [], []
        for row in _table("condition-frequencies.csv"):
            for column in list(row)[2:]:
                sex, low, high = column.split("-")
                cases.append((row["condition"], sex, int(low), int(high)))
                counts.append(int(row[column]) // (STAY_AT_HOME if row["condition"] in COLDS else 1))
        return cases, list(accumulate(counts))

    @cached_property
    def _zips(self) -> tuple[list[str], list[int]]:
        rows = _table("zip-frequencies.csv")
        return [row["zip"] for row in rows], list(accumulate(int(row["patients"]) for row in rows))


def name_of(number: int) -> str:
    """The id of the patient of that number."""
    return f"patient-{number:05}"


def write_clinic(folder: Path, clinic: Clinic) -> int:
    """Writes the policy, its hierarchies and `events.jsonl` into a folder; returns the number of lines."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        write_fresh(folder / name, (resources.files(__name__) / name).read_bytes())
    lines = [json.dumps(event) for event in clinic.events()]
    write_fresh(folder / "events.jsonl", ("\n".join(lines) + "\n").encode())
    return len(lines)


def _table(name: str) -> list[dict[str, str]]:
    with (resources.files(__name__) / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))
