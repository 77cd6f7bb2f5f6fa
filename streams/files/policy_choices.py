"""What can be done about a value too frequent to be hidden: each choice with what it costs and what it gives up.

Opening the most frequent value makes the next one the most frequent of the rest, so advice to open the most frequent
value never ends. Therefore choices stand side by side, and what opening takes from people is said with each.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from shoal.core.audit.reading.truth import Record
from shoal.core.policy.policy import Policy
from shoal.streams.files.policy_forecast import Forecast

_MOST_PEOPLE: Final = 200_000  # planning more of them, several times, takes minutes


def choices(policy: Policy, table: Mapping[str, Record]) -> Iterator[str]:
    """Yields what a first release of this table would show as `*` under this policy, and under others near it.

    Nothing if every protected value can be hidden.
    """
    sensitive = policy.sensitive
    counts = Counter(leaf for record in table.values() for leaf in record.values)
    protected = {leaf: n for leaf, n in counts.items() if leaf not in sensitive.open | sensitive.permanent}
    total = sum(protected.values())
    if not protected or len(table) > _MOST_PEOPLE:
        return
    top = max(protected, key=lambda leaf: (protected[leaf], -leaf))
    if protected[top] * policy.signature <= total:
        return
    label, hierarchy = sensitive.hierarchy.leaves[top], sensitive.hierarchy
    share = protected[top] / total
    yield (
        f"{label} is {share:.1%} of the protected values, and one in {policy.signature} can be hidden. "
        "In a first release:"
    )
    yield f"as the policy is: {_starred(policy, table)}"
    for size in sorted({math.ceil(times * policy.l) + policy.insiders for times in (2, 3)} - {policy.signature}):
        if size <= len(protected):
            wider = "each value is shown among more" if size > policy.signature else "each value is shown among fewer"
            yield f"signature {size}: {_starred(replace(policy, signature=size), table)}; {wider}"
    opened = {top}
    yield f"{label} open: {_opened(policy, table, opened)}; {_given_up(counts, opened, total, len(protected))}"
    node = hierarchy.parent[hierarchy.node_of[label]]
    if node > 0:
        kin = {leaf for leaf, name in enumerate(hierarchy.leaves) if _stands_under(hierarchy, name, node)}
        kin -= sensitive.permanent
        if kin != opened:
            what = f"all of {hierarchy.labels[node]} open"
            yield f"{what}: {_opened(policy, table, kin)}; {_given_up(counts, kin, total, len(protected))}"
    yield (
        "a value once protected cannot be opened later, nor the other way round. Opening the next most frequent value "
        "after this one helps less and gives up as much: each makes the rest look uneven again"
    )


def _stands_under(hierarchy: Any, label: str, node: int) -> bool:
    at = hierarchy.node_of[label]
    while at > 0:
        at = hierarchy.parent[at]
        if at == node:
            return True
    return False


def _opened(policy: Policy, table: Mapping[str, Record], leaves: set[int]) -> str:
    sensitive = policy.sensitive._replace(open=policy.sensitive.open | leaves)
    return _starred(replace(policy, sensitive=sensitive), table)


def _given_up(counts: Counter[int], leaves: set[int], total: int, protected: int) -> str:
    held = sum(counts[leaf] for leaf in leaves)
    left = protected - sum(1 for leaf in leaves if counts[leaf])
    return f"given up: {held:,} of {total:,} values are shown as they are, and {left:,} values are left to hide among"


def _starred(policy: Policy, table: Mapping[str, Record]) -> str:
    forecast = Forecast(policy)
    forecast.see(table)
    made = forecast.manifest
    if made is None or not made["rows"]:
        return "nobody is shown"
    return f"{made['suppressed'] / made['rows']:.1%} of the values are *"
