"""A policy in words: what it promises, and what its author should consider before anything is published."""

from collections.abc import Iterator

from shoal.core.cells.breadth import is_wide
from shoal.core.cuts import people_needed
from shoal.core.policy.policy import Policy
from shoal.core.policy.strategy import required_ratio

LISTED = 8
NO_TRIGGER = "the policy names no trigger, so a release is made only on request."


def describe(policy: Policy) -> Iterator[str]:
    """Yields a few lines, for the author to compare with what they meant."""
    sensitive, wanted = policy.sensitive, policy.triggers
    values = len(sensitive.hierarchy.leaves)
    triggers = [
        f"every {wanted.every_events:,} accepted events" if wanted.every_events else "",
        f"every {wanted.every_seconds:g} seconds" if wanted.every_seconds else "",
        f"at {wanted.at} ({wanted.timezone})" if wanted.at else "",
        "on request",
        f"at most every {wanted.min_seconds:g} seconds" if wanted.min_seconds else "",
    ]
    yield f"table       {policy.table}"
    yield f"attributes  {', '.join(f'{attribute.name} ({attribute.kind})' for attribute in policy.attributes)}"
    yield f"sensitive   {sensitive.name}: {values:,} values, {len(sensitive.open):,} of them open"
    if sensitive.permanent:
        yield f"permanent   {_permanent_labels(policy)}: {_describe_permanent(policy)}"
    yield f"rows        every region is shared by at least {policy.k:,} people"
    yield f"values      over all releases together nobody is linked to a value with more than {1 / policy.l:.4g}"
    yield from _describe_model(policy)
    if policy.shards > 1:
        yield f"shards      {policy.shards:,} regions that are planned apart, from {people_needed(policy):,} people on"
    yield f"releases    {', '.join(trigger for trigger in triggers if trigger)}"
    if policy.snapshot is not None:
        wanted_snapshots = policy.snapshot
        yield (
            f"snapshots   after every {wanted_snapshots.every_releases:,} releases to {wanted_snapshots.to}, "
            f"{wanted_snapshots.keep:,} stay"
        )
    yield f"digest      {policy.digest}"


def _permanent_labels(policy: Policy) -> str:
    labels = [policy.sensitive.hierarchy.leaves[leaf] for leaf in sorted(policy.sensitive.permanent)]
    more = f" and {len(labels) - LISTED:,} more" if len(labels) > LISTED else ""
    return ", ".join(labels[:LISTED]) + more


def _describe_permanent(policy: Policy) -> str:
    if policy.values == "lasting" and len(policy.sensitive.permanent) >= policy.signature:
        return "shown among permanent values only"
    if policy.participation == "all":
        known = "even to somebody who knows of everyone whether they are in the table"
    elif policy.participation:
        known = f"even to somebody who knows of {policy.participation:,} people whether they are in the table"
    else:
        known = "to somebody who does not know who is in the table"
    return f"each holder could be any of {policy.l:g} people or more, {known}"


def _describe_model(policy: Policy) -> Iterator[str]:
    if policy.values == "lasting":
        yield f"model       lasting: somebody's value is shown among the same {policy.signature:,} values for ever"
        yield f"waiting     a new value is * until {policy.batch:,} wait"
        if policy.insiders:
            yield f"insiders    the bound holds also if {policy.insiders:,} of the people are the adversary"
        return
    how = f"{policy.strategy.name}, {policy.strategy.describe()}"
    yield "model       redrawn: values at different releases are taken as independent"
    yield f"strategy    {how}: at first {first_ratio(policy):.2f} people for each showing of a value"


def first_ratio(policy: Policy) -> float:
    """How many people a group needs for each showing of a value, if none of them was published before."""
    return required_ratio(policy.strategy, policy.l, 1.0, 0)


def warnings(policy: Policy) -> Iterator[str]:
    """Yields what is worth a warning whatever the data are."""
    triggers = policy.triggers
    if not (triggers.every_events or triggers.every_seconds or triggers.at):
        yield NO_TRIGGER
    if len(policy.sensitive.open) == len(policy.sensitive.hierarchy.leaves):
        yield "every sensitive value is open, so none is protected."
    hidden = len(policy.sensitive.hierarchy.leaves) - len(policy.sensitive.open | policy.sensitive.permanent)
    if policy.values == "lasting" and 0 < hidden < policy.signature:
        yield (
            f"{hidden:,} values are neither open nor permanent, fewer than the {policy.signature:,} of a signature, so "
            "they can only be shown as *."
        )
    for attribute in policy.attributes:
        if attribute.hierarchy is not None and is_wide(attribute.hierarchy):
            most = attribute.hierarchy.most_children()
            yield (
                f"{attribute.name} has {most:,} labels side by side: a region lists them one by one, so they are told "
                "apart only where people are many; a hierarchy with levels between is published more finely."
            )
    if policy.k == 1:
        yield "with k = 1 a row may be recognised by its region alone."
