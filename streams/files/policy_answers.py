"""Which questions a release of a sample's size will answer: the smallest difference in shares that it will show.

Of each attribute, cut into its bins, and each category of values, that is half the likely range of a count, as a share
of the bin's people: the median over the bins. Smaller differences between the bins may be nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from shoal.core.measure.count import Answers
from shoal.core.measure.cross_table import cross_table, read_head
from shoal.core.measure.release_reader import read_columns
from shoal.core.policy.policy import Policy

LISTED: Final = 6  # categories, the most frequent first
MOST_BINS: Final = 50
FEWEST: Final = 1.0  # people


def differences(policy: Policy, records: Iterable[bytes]) -> Iterator[str]:
    """Yields a sentence for each attribute, given the records of a release; none if it shows nobody."""
    answers = Answers(read_columns(policy, records))
    if not answers.release.rows:
        return
    for attribute in policy.attributes:
        head = read_head(answers, attribute.name, None, {})
        ((_, bins),) = head.bins
        if not 1 < len(bins) <= MOST_BINS:
            continue
        widths: dict[str, list[float]] = defaultdict(list)
        sizes: dict[str, float] = defaultdict(float)
        people = {}
        for line in cross_table(answers, head, "model"):
            sizes[line.value] += line.answer.estimate
            if line.people >= FEWEST:
                people[line.bins] = line.people
                widths[line.value].append((line.answer.likely[1] - line.answer.likely[0]) / 2 / line.people)
        frequent = sorted((value for value in widths if sizes[value] >= FEWEST), key=lambda value: -sizes[value])
        if frequent:
            listed = ", ".join(f"{value} {100 * float(np.median(widths[value])):.2g}" for value in frequent[:LISTED])
            size = float(np.median(list(people.values())))
            yield (
                f"by {attribute.name}, in {len(people)} parts of about {size:,.0f} people, a difference in shares "
                f"shows from so many points on: {listed}"
            )
