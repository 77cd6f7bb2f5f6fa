"""Adult in codes, as the benchmarks want it, and what a partition of its rows loses."""

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.policy import Attribute, Policy
from streams.policyfile import load_policy
from tests.bench.mondrian import Numbers, Points

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "adult"
K = 10


@dataclass(frozen=True)
class Adult:
    """The seven quasi-identifiers: one column per attribute of the policy; categories are leaf codes."""

    policy: Policy
    points: Points


def load_adult() -> Adult:
    policy = load_policy(FOLDER / "policy.yaml")
    with gzip.open(FOLDER / "adult.csv.gz", "rt", encoding="utf-8") as text:
        people = list(csv.DictReader(text))
    columns = []
    for attribute in policy.attributes:
        codes = attribute.hierarchy.leaf_code if attribute.hierarchy else None
        labels = [person[attribute.name] for person in people]
        columns.append([codes[label] if codes else int(label) for label in labels])
    return Adult(policy, np.array(columns, dtype=np.int64).T.copy())


def ncp_of_rows(attributes: tuple[Attribute, ...], points: Points, classes: Numbers) -> float:
    """NCP of classes published as tightly as their rows allow: the range of a number, the set of a category's leaves.

    A class that shows one leaf loses nothing in that attribute. Every partition can be judged so, whoever made it.
    """
    size, count = int(classes.max()) + 1, np.bincount(classes)
    penalty = 0.0
    for attribute, column in zip(attributes, points.T, strict=True):
        if attribute.kind == "category":
            leaves = int(attribute.high) + 1
            is_shown = np.zeros((size, leaves), dtype=bool)
            is_shown[classes, column] = True
            shown = is_shown.sum(axis=1)
            share = np.where(shown > 1, shown / leaves, 0.0)
        else:
            low, high = np.full(size, np.iinfo(np.int64).max), np.full(size, np.iinfo(np.int64).min)
            np.minimum.at(low, classes, column)
            np.maximum.at(high, classes, column)
            share = (high - low) / (attribute.high - attribute.low)
        penalty += float((share * count).sum())
    return penalty / len(points) / len(attributes)
