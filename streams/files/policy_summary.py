"""A policy in words: what it promises, and what its author should consider before anything is published."""

from collections.abc import Iterator

from shoal.core.groups.strategy import required_ratio
from shoal.core.policy.policy import Policy


def describe(policy: Policy) -> Iterator[str]:
    """Yields a few lines, for the author to compare with what they meant."""
    sensitive, strategy, release = policy.sensitive, policy.strategy, policy.release
    values = len(sensitive.hierarchy.leaves)
    how = f"{strategy.releases} exposures foreseen" if strategy.releases else f"alpha {strategy.alpha:g}"
    triggers = [
        f"every {release.every_events:,} accepted events" if release.every_events else "",
        f"every {release.every_seconds:g} seconds" if release.every_seconds else "",
        f"at {release.at} ({release.timezone})" if release.at else "",
        "on request",
    ]
    yield f"table       {policy.table}"
    yield f"attributes  {', '.join(f'{attribute.name} ({attribute.kind})' for attribute in policy.attributes)}"
    yield f"sensitive   {sensitive.name}: {values:,} values, {len(sensitive.open):,} of them open"
    if sensitive.permanent:
        known = "everyone is there" if policy.participation == "all" else f"{policy.participation:,} people are there"
        labels = ", ".join(sensitive.hierarchy.leaves[leaf] for leaf in sorted(sensitive.permanent))
        yield f"permanent   {labels}: each holder among {policy.l:g} people or more, to those who know whether {known}"
    yield f"rows        every region is shared by at least {policy.k:,} rows"
    yield f"values      over all releases together nobody is linked to a value with more than {1 / policy.l:.4g}"
    yield f"strategy    {strategy.name}, {how}: at first {first_ratio(policy):.2f} people for each showing of a value"
    yield f"releases    {', '.join(trigger for trigger in triggers if trigger)}"
    yield f"digest      {policy.digest}"


def first_ratio(policy: Policy) -> float:
    """How many people a group needs for each showing of a value, if none of them was published before."""
    return required_ratio(policy.strategy, policy.l, 1.0, 0)


def warnings(policy: Policy) -> Iterator[str]:
    """Yields what is worth a warning whatever the data are."""
    release = policy.release
    if not (release.every_events or release.every_seconds or release.at):
        yield "the policy names no trigger, so a release is made only on request."
    if len(policy.sensitive.open) == len(policy.sensitive.hierarchy.leaves):
        yield "every sensitive value is open, so none is protected."
    if policy.k == 1:
        yield "with k = 1 a row may be recognised by its region alone."
