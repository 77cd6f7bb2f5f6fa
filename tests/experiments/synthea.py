"""Synthea, a release per year, conditions opening and closing: what is published of ten years.

Half of the patients change between two years and a third is replaced, so hardly a group is carried. Many of the
conditions never end: a person who has one is exposed to it every year. The model leaves values that persist to cohorts,
so the series is also run without the conditions that last, and with those that nobody ever loses as permanent values.
"""

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from shoal.core.measure.query import draw_queries
from shoal.core.policy.policy import Policy
from shoal.streams.files.policy_yaml import load_policy
from tests.experiments.mondrian import View, anonymize, unsafe_share, view_of
from tests.experiments.series import Figures, Record, Table, Watcher, measure, redrawn, run
from tests.support.root import ROOT

FOLDER = ROOT / "examples" / "synthea"
LASTING, FOR_EVER = 0.95, 1.0  # share of holders who have not lost it a year later


def load_tables(policy: Policy) -> list[Table]:
    """The true table of each year, in codes."""
    with gzip.open(FOLDER / "events.jsonl.gz", "rt", encoding="utf-8") as lines:
        return list(_fold(policy, lines))


def _fold(policy: Policy, lines: Iterator[str]) -> Iterator[Table]:
    table: dict[str, Record] = {}
    codes = policy.sensitive.hierarchy.leaf_code
    for line in lines:
        event = json.loads(line)
        if event["op"] == "release":
            yield dict(table)
            continue
        person = event["id"]
        if event["op"] == "delete":
            del table[person]
            continue
        values = tuple(sorted(codes[label] for label in event["sensitive"]))
        if event["op"] == "update":
            table[person] = (table[person][0], values)
            continue
        qid = [
            attribute.hierarchy.leaf_code[event["qid"][attribute.name]]
            if attribute.hierarchy
            else event["qid"][attribute.name]
            for attribute in policy.attributes
        ]
        table[person] = (tuple(qid), values)


def lasting_values(tables: Sequence[Table], share: float) -> frozenset[int]:
    """The conditions that at least this share of their holders, still there a year later, still have."""
    held: Counter[int] = Counter()
    kept: Counter[int] = Counter()
    for before, after in pairwise(tables):
        for person, (_, values) in before.items():
            if person in after:
                held.update(values)
                kept.update(set(values) & set(after[person][1]))
    return frozenset(value for value, count in held.items() if kept[value] >= share * count)


def without(tables: Sequence[Table], values: frozenset[int]) -> list[Table]:
    """The tables without these values; people who have no other are not in them."""
    stripped: list[Table] = []
    for table in tables:
        left = {person: (qid, tuple(v for v in mine if v not in values)) for person, (qid, mine) in table.items()}
        stripped.append({person: record for person, record in left.items() if record[1]})
    return stripped


def years(policy: Policy, tables: Sequence[Table], queries: int, watch: Watcher) -> Iterator[Figures]:
    workload = draw_queries(policy, count=queries)
    qids = {person: qid for table in tables for person, (qid, _) in table.items()}
    row = {person: index for index, person in enumerate(qids)}
    points = np.array(list(qids.values()), dtype=np.int64)
    mine: list[View] = []
    theirs: list[View] = []
    for step in run(policy, tables):
        people = np.array([row[person] for person in step.table], dtype=np.int64)
        theirs.append(anonymize(points, people, policy.k).view)
        mine.append(view_of(step, row.__getitem__))
        watch(f"year {step.number} of {len(tables)}")
        yield measure(step, workload) | {
            "year": 2007 + step.number,
            "values_per_person": sum(len(values) for _, values in step.table.values()) / len(step.table),
            "unsafe": unsafe_share(mine, policy.k),
            "independent_unsafe": unsafe_share(theirs, policy.k),
        }


def experiment(watch: Watcher, *, quick: bool = False) -> Figures:
    """All conditions, only those that come and go, and all with those that stay for ever permanent."""
    policy = redrawn(load_policy(FOLDER / "policy.yaml"), 10)
    tables = load_tables(policy)
    lasting = lasting_values(tables, LASTING)
    permanent = lasting_values(tables, FOR_EVER) - policy.sensitive.open
    with_permanent = replace(policy, sensitive=policy.sensitive._replace(permanent=permanent))
    if quick:
        tables = [{p: record for p, record in table.items() if int(p[1:]) % 4 == 0} for table in tables[:3]]
    queries = 50 if quick else 1_000
    return {
        "patients": len({person for table in tables for person in table}),
        "lasting_conditions": sorted(policy.sensitive.hierarchy.leaves[value] for value in lasting),
        "all": list(years(policy, tables, queries, watch)),
        "passing": list(years(policy, without(tables, lasting), queries, watch)),
        "permanent": list(years(with_permanent, tables, queries, watch)),
    }
