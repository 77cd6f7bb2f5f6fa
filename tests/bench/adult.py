"""Adult in codes, as the benchmarks want it, and what a partition of its rows loses."""

import csv
import gzip
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.core.policy.policy import Attribute, Policy, build_policy
from shoal.streams.files.policy_yaml import load_policy
from tests.bench.mondrian import Numbers, Points
from tests.support.root import ROOT

FOLDER = ROOT / "examples" / "adult"
K = 10
# Education as the census also gives it, in years from the lowest on, and the other attributes, in UCI's order.
SCHOOLING = (
    *("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad"),
    *("Some-college", "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate"),
)
BY_YEARS = ("age", "workclass", "education", "marital-status", "race", "sex", "native-country")


@dataclass(frozen=True)
class Adult:
    """The seven quasi-identifiers: one column per attribute of the policy; categories are leaf codes."""

    policy: Policy
    points: Points

    def by_appearance(self) -> Points:
        """Categories numbered as they first appear, which is how a Mondrian without hierarchies has them."""
        columns = [
            column if attribute.kind == "int" else _by_appearance(column)
            for attribute, column in zip(self.policy.attributes, self.points.T, strict=True)
        ]
        return np.stack(columns, axis=1)


def load_adult() -> Adult:
    """As in examples/adult."""
    policy = load_policy(FOLDER / "policy.yaml")
    return Adult(policy, _encode(policy, _people()))


def load_adult_by_years() -> Adult:
    """With education in years, the setting of others' figures (docs/benchmarks.md); the rest as in examples/adult."""
    attributes: dict[str, dict[str, object]] = {
        name: {"type": "category", "hierarchy": f"{name}.csv"} for name in BY_YEARS
    }
    attributes |= {
        "age": {"type": "int", "min": 17, "max": 90},
        "education": {"type": "int", "min": 1, "max": len(SCHOOLING)},
    }
    document = {
        "table": "adult",
        "attributes": attributes,
        "sensitive": {"name": "occupation", "hierarchy": "occupation.csv"},
        "privacy": {"values": "redrawn", "k": K, "l": 2},
    }
    files = {path.name: path.read_bytes() for path in FOLDER.glob("*.csv")}
    policy = build_policy(document, files, b"adult")
    years = {label: str(1 + place) for place, label in enumerate(SCHOOLING)}
    people = [{**person, "education": years[person["education"]]} for person in _people()]
    return Adult(policy, _encode(policy, people))


def _people() -> list[dict[str, str]]:
    with gzip.open(FOLDER / "adult.csv.gz", "rt", encoding="utf-8") as text:
        return list(csv.DictReader(text))


def _encode(policy: Policy, people: list[dict[str, str]]) -> Points:
    columns = []
    for attribute in policy.attributes:
        codes = attribute.hierarchy.leaf_code if attribute.hierarchy else None
        labels = [person[attribute.name] for person in people]
        columns.append([codes[label] if codes else int(label) for label in labels])
    return np.array(columns, dtype=np.int64).T.copy()


def _by_appearance(column: Numbers) -> Numbers:
    _, first, which = np.unique(column, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[which]


def ncp_of_rows(attributes: tuple[Attribute, ...], points: Points, classes: Numbers, *, steps: bool = False) -> float:
    """NCP of classes published as tightly as their rows allow: the range of a number, the set of a category's leaves.

    A class that shows n of m leaves loses n / m in that attribute, nothing if n is 1; counted in steps it loses
    (n - 1) / (m - 1), as a number does, and m is how many of them occur. Any partition can be
    judged so.
    """
    size, count = int(classes.max()) + 1, np.bincount(classes)
    penalty = 0.0
    for attribute, column in zip(attributes, points.T, strict=True):
        share: NDArray[np.float64]
        if attribute.kind == "category":
            leaves = int(attribute.high) + 1
            is_shown = np.zeros((size, leaves), dtype=bool)
            is_shown[classes, column] = True
            shown = is_shown.sum(axis=1)
            occurring = int(is_shown.any(axis=0).sum())
            share = (shown - 1) / (occurring - 1) if steps else np.where(shown > 1, shown / leaves, 0.0)
        else:
            low, high = np.full(size, np.iinfo(np.int64).max), np.full(size, np.iinfo(np.int64).min)
            np.minimum.at(low, classes, column)
            np.maximum.at(high, classes, column)
            share = (high - low) / (attribute.high - attribute.low)
        penalty += float((share * count).sum())
    return penalty / len(points) / len(attributes)
