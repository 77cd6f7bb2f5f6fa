"""What a policy promises, in words, and what its author should think about before anything is published."""

from collections import Counter
from collections.abc import Iterator

from core.event import Reject, parse_json
from core.intake import PUT, Intake
from core.policy import Policy
from core.strategy import required_ratio
from streams.lines import open_lines

SHOWN = 5


def describe(policy: Policy) -> Iterator[str]:
    """A few lines for the author to compare with what was meant."""
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
    yield f"rows        every region is shared by at least {policy.k:,} rows"
    yield f"values      over all releases together nobody is linked to a value with more than {1 / policy.l:.4g}"
    yield f"strategy    {strategy.name}, {how}: at first {first_ratio(policy):.2f} people for each showing of a value"
    yield f"releases    {', '.join(trigger for trigger in triggers if trigger)}"
    yield f"digest      {policy.digest}"


def first_ratio(policy: Policy) -> float:
    """How many people a group must have for each showing of a value, for people who have not been published before."""
    return required_ratio(policy.strategy, policy.l, 1.0, 0)


def warnings(policy: Policy) -> Iterator[str]:
    """What can be said without looking at data."""
    release = policy.release
    if not (release.every_events or release.every_seconds or release.at):
        yield "the policy names no trigger, so a release is made only on request."
    if len(policy.sensitive.open) == len(policy.sensitive.hierarchy.leaves):
        yield "every sensitive value is open, so none is protected."
    if policy.k == 1:
        yield "with k = 1 a row may be recognised by its region alone."


def warnings_from(policy: Policy, source: str) -> Iterator[str]:
    """What a sample of events shows: the table as it would be after all of them."""
    values, rejected = table_after(policy, source)
    people = len(values)
    if rejected:
        yield f"{rejected:,} events of the sample would be rejected."
    if people < policy.k:
        yield f"the sample leaves {people:,} people in the table, fewer than k, so all of them would be withheld."
        return
    ratio = first_ratio(policy)
    leaves = policy.sensitive.hierarchy.leaves
    counts = Counter(code for codes in values for code in codes if code not in policy.sensitive.open)
    frequent = [(code, count) for code, count in counts.most_common() if count * ratio > people]
    for code, count in frequent[:SHOWN]:
        yield (
            f"{leaves[code]} is held by {count / people:.1%} of the people, more than the {1 / ratio:.1%} that groups "
            "alone can hide, so some of it will be suppressed or withheld; make it open if it is not sensitive, or "
            "foresee fewer exposures."
        )
    if len(frequent) > SHOWN:
        yield f"{len(frequent) - SHOWN:,} more values are too frequent."


def table_after(policy: Policy, source: str) -> tuple[list[tuple[int, ...]], int]:
    """Everyone's values after all events of a file, and how many events were rejected; release lines do not count."""
    intake = Intake(policy, {})
    rejected = 0
    with open_lines(source) as lines:
        for block in lines.blocks():
            for raw in block:
                event = parse_json(raw)
                if isinstance(event, dict) and event.get("op") == "release":
                    continue
                if raw.strip() and (isinstance(event, Reject) or intake.take(event) is not None):
                    rejected += 1
    # Nobody was known at the start, so whoever is present was put there whole.
    return [values for kind, _, values, _ in intake.window.values() if kind == PUT and values], rejected
