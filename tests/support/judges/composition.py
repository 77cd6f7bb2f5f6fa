"""A naive judge of G5: knows the truth and what others published, shares no code with the engine, counts in fractions.

For every row of every group in a release it looks at every group of every other publisher there is. A row that is not
balanced must be one of those shown as "*"; who that is nobody says, so a group needs as many "*" as it has such rows.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from tests.support.judges.series import Table

Leaves = Mapping[str, frozenset[str]]


def is_inside(region: Mapping[str, Any], qid: Mapping[str, Any], attributes: Mapping[str, Leaves | None]) -> bool:
    for name, side in region.items():
        leaves, value = attributes[name], qid[name]
        if leaves is not None:
            if not any(value in leaves[label] for label in side["nodes"]):
                return False
        elif value < side["min"] or (value >= side["below"] if "below" in side else value > side["max"]):
            return False
    return True


def weigh(shown: Mapping[str, int], sensitive: Leaves) -> dict[str, Fraction]:
    found: dict[str, Fraction] = {}
    for label, count in shown.items():
        if label != "*":
            for leaf in sensitive[label]:
                found[leaf] = found.get(leaf, Fraction(0)) + Fraction(count, len(sensitive[label]))
    return found


def regions_of(group: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(group["regions"]) if "regions" in group else [group["region"]]


def unbalanced(
    records: Sequence[bytes],
    members: Iterable[tuple[str, str, str]],
    table: Table,
    publications: Sequence[Mapping[str, Any]],
    alpha: int,
    sensitive: Leaves,
    attributes: Mapping[str, Leaves | None],
) -> list[str]:
    """Every group with more rows that are not balanced beside `publications` (external events) than it has "*"."""
    others = [group for event in publications for group in event["groups"]]
    groups = {record["group"]: record for record in map(json.loads, records) if "group" in record}
    wanting: Counter[str] = Counter()
    for person, name, _ in members:
        ours = weigh(groups[name]["sensitive"], sensitive)
        qid, values = table[person][0], table[person][1]
        for value in values:
            wanting[name] += any(
                any(is_inside(region, qid, attributes) for region in regions_of(other))
                and value in (theirs := weigh(other["sensitive"], sensitive))
                and not has_company(value, ours, theirs, alpha)
                for other in others
            )
    return [f"{name} is not balanced" for name, rows in wanting.items() if rows > groups[name]["sensitive"].get("*", 0)]


def has_company(value: str, ours: Mapping[str, Fraction], theirs: Mapping[str, Fraction], alpha: int) -> bool:
    if value not in ours:
        return False
    total = ours[value] + theirs[value]
    common = [leaf for leaf in ours if leaf in theirs]
    return sum(ours[leaf] + theirs[leaf] == total for leaf in common) >= alpha
