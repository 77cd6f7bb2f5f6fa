"""Why values are `*`, and how far totals are off: for forecasts and experiments, never for a release.

Each `*` of a release has one reason:

- *full*: a further value of the person could not be shown safely, wherever it lay (S3), or a guard or another
  publisher's group forbids it;
- *second*: there was no round of the signature that holds the value already;
- *unfit*: too many newcomers had the value, or they fitted no round;
- *company*: it was starred with others who found no round;
- *waiting*: too few newcomers wait;
- *blank*: the row stands for no value, but for a permanent one that is shown for a clique.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np

from shoal.core.policy.policy import Policy
from shoal.core.signatures.entries import COMPANY, NO_GROUP, SECOND, STARRED, Entries
from shoal.core.signatures.group import STAR, Groups
from shoal.core.signatures.signature import Signatures


class Shown(Protocol):
    """What is asked of a table's state, or of a shard's."""

    policy: Policy
    entries: Entries
    groups: Groups
    signatures: Signatures


def hidden_by_reason(states: Iterable[Shown], waiting: int) -> dict[str, int]:
    """How many values of the last release are `*`, by reason; `waiting` as its manifest says."""
    found = dict.fromkeys(("full", "second", "unfit", "company", "waiting", "blank"), 0)
    for state in states:
        entries, groups = state.entries, state.groups
        placed = np.flatnonzero(entries.group != NO_GROUP)
        stars = placed[groups.kind[entries.group[placed]] == STAR]
        is_starred, is_second, is_company = (entries.has(flag)[stars] for flag in (STARRED, SECOND, COMPANY))
        is_blank = entries.value[stars] == len(state.policy.sensitive.hierarchy.leaves)
        counted = {
            "full": ~is_starred & ~is_blank,
            "second": is_second,
            "unfit": is_starred & ~is_second & ~is_company,
            "company": is_company,
            "blank": is_blank,
        }
        for reason, is_one in counted.items():
            found[reason] += int(np.count_nonzero(is_one))
    return found | {"full": found["full"] - waiting, "waiting": waiting}


def error_of_totals(states: Iterable[Shown], held: Mapping[int, int], least: int = 20) -> float | None:
    """How far totals are off, in the median over protected values that `least` people or more hold; None without any.

    Each row counts as each value of its signature equally, and every `*` as each value in proportion.
    """
    estimated: dict[int, float] = {}
    stars = 0
    spared: frozenset[int] = frozenset()
    for state in states:
        entries, groups, signatures = state.entries, state.groups, state.signatures
        spared = state.policy.sensitive.open | state.policy.sensitive.permanent
        rows = np.bincount(entries.group[entries.group != NO_GROUP], minlength=groups.size)
        stars += int(rows[groups.kind == STAR].sum())
        shown = np.flatnonzero((groups.kind >= 0) & (rows > 0))
        for kind, count in zip(groups.kind[shown].tolist(), rows[shown].tolist(), strict=True):
            for value in signatures.sets[kind]:
                estimated[value] = estimated.get(value, 0.0) + count / len(signatures.sets[kind])
    scale = 1 + stars / max(1.0, sum(estimated.values()))
    errors = [
        abs(estimated.get(value, 0.0) * scale - count) / count
        for value, count in sorted(held.items())
        if count >= least and value not in spared
    ]
    return float(np.median(errors)) if errors else None
