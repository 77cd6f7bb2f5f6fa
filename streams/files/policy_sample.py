"""What a sample of data says about a policy, before anything is published: each finding is one sentence.

The sample is a file of events in any format, with `release` lines where releases would be. It is read as the auditor
reads events. No finding names a person or quotes a value of an attribute; labels of sensitive values are the policy's.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from shoal.core.audit.reading.truth import Record
from shoal.core.cuts import people_needed
from shoal.core.policy.policy import Attribute, Policy
from shoal.core.policy.strategy import required_ratio
from shoal.streams.files.event_lines import BY_NAME, read_lines
from shoal.streams.files.formats.format import FormatChoice
from shoal.streams.files.judged import judged
from shoal.streams.files.policy_answers import differences
from shoal.streams.files.policy_choices import choices
from shoal.streams.files.policy_forecast import Forecast, suggestions
from shoal.streams.files.policy_summary import first_ratio
from shoal.streams.files.rejects import Tally
from shoal.streams.files.true_tables import tables_at_releases
from shoal.streams.files.unwatched import Unwatched

SHOWN = 5
UNIQUE = 0.5  # if this share of the people have a value that nobody else has, the attribute is nearly an identifier
SAME = 0.99  # if this share of the people have the same value, the attribute says nothing
NARROW = 0.1  # if 99 % of the people lie within this share of the domain, the domain is too wide
UNUSED = 0.5  # if nobody has this share of a category's labels, its domain is too wide
MANY_LABELS = 20
LARGEST_USEFUL_GROUP = 100


class Finding(NamedTuple):
    """One sentence: a warning, or, with a name, a fact to be listed with what the policy promises."""

    sentence: str
    name: str | None = None


@dataclass
class Sample:
    """The table after all events, and how many people changed or left between two releases."""

    table: Mapping[str, Record]
    accepted: int = 0
    rejects: Tally = field(default_factory=Tally)
    stayed: list[tuple[int, int]] = field(default_factory=list)  # (people at a release, of them gone or changed)
    forecast: Forecast | None = None  # of a lasting table
    insider: Forecast | None = None  # the same with an insider more

    def foresee(self, table: Mapping[str, Record]) -> None:
        """Plan the next release of a lasting table."""
        for forecast in (self.forecast, self.insider):
            if forecast is not None:
                forecast.see(table)

    @property
    def is_mostly_rejected(self) -> bool:
        """Whether the sample does not fit the policy: more than half of its events would be rejected."""
        return self.rejects.total > self.accepted


class Watcher(Protocol):
    """Is told how far the reading is."""

    def say(self, text: str) -> None: ...


def read_sample(
    policy: Policy,
    sources: str | tuple[str, ...],
    choice: FormatChoice = BY_NAME,
    watcher: Watcher | None = None,
) -> Sample:
    """Reads the events of files. Raises `InputError` if they cannot be read at all."""
    sample = Sample({})
    if policy.values == "lasting":
        sample.forecast, sample.insider = Forecast(policy), _with_an_insider(policy)
    before: dict[str, Record] | None = None
    watcher = watcher or Unwatched()
    names = (sources,) if isinstance(sources, str) else sources
    lines = judged(policy, read_lines(policy, names, choice), sample.rejects)
    for number, table, accepted, _ in tables_at_releases(policy, lines):
        if number is None:
            sample.table, sample.accepted = table, accepted
            if before is None:
                sample.foresee(table)
            continue
        watcher.say(f"release {number}")
        sample.foresee(table)
        if before:
            gone = sum(table.get(person) != record for person, record in before.items())
            sample.stayed.append((len(before), gone))
        before = dict(table)
    return sample


def findings(policy: Policy, sample: Sample) -> Iterator[Finding]:
    """Yields every finding, facts first."""
    people = len(sample.table)
    if sample.rejects.total:
        total = sample.accepted + sample.rejects.total
        yield Finding(f"{sample.rejects.total:,} of {total:,} events of the sample would be rejected:")
        for sentence in sample.rejects.sentences():
            yield Finding(f"  {sentence}")
    if people < policy.k:
        yield Finding(
            f"the sample leaves {people:,} people in the table, fewer than k, so all of them would be withheld."
        )
        return
    if policy.shards > 1 and people < people_needed(policy):
        yield Finding(
            f"the sample leaves {people:,} people in the table, and a table of {policy.shards:,} shards is cut when "
            f"there are {people_needed(policy):,}, so all of them would be withheld."
        )
        return
    qids = Counter(record.qid for record in sample.table.values())
    alone = sum(count for count in qids.values() if count == 1) / people
    yield Finding(f"{people:,} people; {alone:.0%} are the only one with their quasi-identifiers", "sample")
    if policy.values == "redrawn":
        yield from _budget(policy, sample)
    if sample.forecast:
        yield from _forecast(policy, sample, sample.forecast)
        yield from (Finding(sentence, "choices") for sentence in choices(policy, sample.table))
    yield from _frequent(policy, _count(sample), people)
    for position, attribute in enumerate(policy.attributes):
        yield from _attribute(attribute, [record.qid[position] for record in sample.table.values()])


def exposures_affordable(policy: Policy) -> int:
    """How often a person can be shown with a value, in groups just large enough, before groups become too large."""
    limit = max(LARGEST_USEFUL_GROUP, 4 * first_ratio(policy))
    survival, exposures = 1.0, 0
    while (ratio := required_ratio(policy.strategy, policy.l, survival, exposures)) <= limit:
        survival *= 1 - 1 / ratio
        exposures += 1
    return exposures


def _budget(policy: Policy, sample: Sample) -> Iterator[Finding]:
    """How many releases the budget lasts. A group is formed anew, and charged, whenever a person in it changes."""
    if not sample.stayed:
        yield Finding(
            "unknown: the sample makes fewer than two releases, so it does not show how fast people change", "budget"
        )
        return
    change = sum(gone for _, gone in sample.stayed) / sum(people for people, _ in sample.stayed)
    size = math.ceil(first_ratio(policy))
    broken = 1 - (1 - change) ** size
    if broken == 0:
        yield Finding("lasts for ever: nobody changes between two releases of the sample", "budget")
        return
    exposures = exposures_affordable(policy)
    yield Finding(
        f"lasts about {exposures / broken:,.0f} releases for a person who stays and keeps a value: {change:.1%} of the "
        f"people change or leave between two releases, so a group of {size} breaks at {broken:.0%} of them, and "
        f"{exposures} groups can be paid for",
        "budget",
    )


def _count(sample: Sample) -> Counter[int]:
    return Counter(leaf for record in sample.table.values() for leaf in record.values)


def _transient(policy: Policy, counts: Counter[int]) -> Counter[int]:
    spared = policy.sensitive.open | policy.sensitive.permanent
    return Counter({leaf: count for leaf, count in counts.items() if leaf not in spared})


def _with_an_insider(policy: Policy) -> Forecast | None:
    """The forecast with an insider more; None if the values are too few for that."""
    insiders = policy.insiders + 1
    signature = max(policy.signature, math.ceil(2 * policy.l) + insiders)
    values = len(policy.sensitive.hierarchy.leaves) - len(policy.sensitive.open)
    if signature > values:
        return None
    return Forecast(replace(policy, insiders=insiders, signature=signature, batch=max(policy.batch, signature)))


def _forecast(policy: Policy, sample: Sample, forecast: Forecast) -> Iterator[Finding]:
    """What the policy costs on the sample, and what might be written into it."""
    for name, sentence in (("cost", forecast.cost()), ("why *", forecast.reasons()), ("totals", forecast.totals())):
        if sentence is not None:
            yield Finding(sentence, name)
    if sample.insider is not None and (cost := sample.insider.cost()) is not None:
        yield Finding(f"with `insiders: {policy.insiders + 1}` {cost}", "insiders")
    for sentence in differences(policy, forecast.records):
        yield Finding(sentence, "answers")
    for suggestion in suggestions(policy, forecast, _transient(policy, _count(sample))):
        yield Finding(suggestion, "suggested")


def _frequent(policy: Policy, counts: Counter[int], people: int) -> Iterator[Finding]:
    permanent = Counter({leaf: counts[leaf] for leaf in policy.sensitive.permanent if counts[leaf]})
    if policy.values == "redrawn":
        yield from _in_cliques(policy, permanent, people)
        yield from _in_groups(policy, _transient(policy, counts), people)
        return
    if len(policy.sensitive.permanent) < policy.signature:
        yield from _in_cliques(policy, permanent, people)
    else:
        yield from _in_signatures(policy, permanent, "permanent")
    yield from _in_signatures(policy, _transient(policy, counts), "protected")


def _in_cliques(policy: Policy, counts: Counter[int], people: int) -> Iterator[Finding]:
    """Which permanent values have too many holders for everyone to have l - 1 decoys."""
    leaves = policy.sensitive.hierarchy.leaves
    for leaf in sorted(counts):
        if counts[leaf] * policy.l > people:
            yield Finding(
                f"{leaves[leaf]} is held by {counts[leaf] / people:.1%} of the people, and a permanent value can "
                f"be hidden for {1 / policy.l:.1%} of them at most, so it will sometimes be suppressed."
            )


def _in_groups(policy: Policy, counts: Counter[int], people: int) -> Iterator[Finding]:
    """Which of these protected values of a redrawn table are too frequent."""
    ratio, leaves = first_ratio(policy), policy.sensitive.hierarchy.leaves
    frequent = [(leaf, count) for leaf, count in counts.most_common() if count * ratio > people]
    for leaf, count in frequent[:SHOWN]:
        yield Finding(
            f"{leaves[leaf]} is a value of {count / people:.1%} of the people, more than the {1 / ratio:.1%} "
            "that grouping alone can hide, so it will sometimes be raised, suppressed or withheld; make it open if it "
            "is not sensitive, or foresee fewer exposures."
        )
    if len(frequent) > SHOWN:
        yield Finding(f"{len(frequent) - SHOWN:,} more values are too frequent to be hidden by grouping alone.")


def _in_signatures(policy: Policy, counts: Counter[int], kind: str) -> Iterator[Finding]:
    """Which of these values of a lasting table are too frequent: fewer than m values in all can be."""
    total, leaves = counts.total(), policy.sensitive.hierarchy.leaves
    advice = "`choices` compares what could be done" if kind == "protected" else "it may be better not to name it so"
    for leaf, count in counts.most_common():
        if count * policy.signature > total:
            yield Finding(
                f"{leaves[leaf]} makes up {count / total:.1%} of the {kind} values, more than one in "
                f"{policy.signature}, so some of them will be shown as *; {advice}."
            )


def _attribute(attribute: Attribute, values: Sequence[Any]) -> Iterator[Finding]:
    name, people = attribute.name, len(values)
    counts = Counter(values)
    unique = sum(count for count in counts.values() if count == 1) / people
    same = counts.most_common(1)[0][1] / people
    if unique >= UNIQUE:
        yield Finding(
            f"{name} is nearly an identifier: {unique:.0%} of the people have a value that nobody else has; give it "
            "fewer digits, or leave it out."
        )
    if same >= SAME:
        yield Finding(f"{name} is the same for {same:.1%} of the people, so it tells nothing; leave it out.")
        return
    if attribute.hierarchy is None:
        low, high = np.quantile(np.array(values, dtype=np.float64), [0.005, 0.995]).tolist()
        used = (high - low) / (attribute.high - attribute.low)
        if used <= NARROW:
            yield Finding(
                f"{name} has a domain that is too wide: 99 % of the people lie within {_percent(used)} of it, so it "
                "hardly counts when regions are cut; bring min and max closer together."
            )
        return
    labels = len(attribute.hierarchy.leaves)
    unused = 1 - len(counts) / labels
    if unused >= UNUSED:
        yield Finding(
            f"{name} has {labels:,} labels, and nobody in the sample has {unused:.0%} of them, so its domain is wider "
            "than the data; remove the labels that cannot occur."
        )
    if labels > MANY_LABELS and len(attribute.hierarchy.labels) == labels + 1:
        yield Finding(
            f"{name} has {labels:,} labels and nothing above them, so a region joins labels only because they are "
            "neighbours in the policy; give it a hierarchy."
        )


def _percent(share: float) -> str:
    return "0.01 %" if share < 0.0001 else f"{100 * share:.2g} %"
