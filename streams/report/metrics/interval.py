"""How much a release leaves open: how wide the range is in which the true answer of a COUNT query lies.

Anyone can work it out, since it needs no truth. What is certain is a bound on the error of whoever answers from the
release alone; what is likely is what a reader can count on nine times in ten.
"""

from collections.abc import Sequence

import numpy as np

from shoal.core.measure.query import SANITY, draw_queries
from shoal.core.measure.question import question_of
from shoal.streams.report.metrics.metric import Figure, Figures, Metric, Picture, Reading, Request, curve
from shoal.streams.report.panel import Panel

QUERIES = 50  # each reads the whole release


class Interval(Metric):
    """The middle one of the widths, of the same queries at every release."""

    figures = {  # noqa: RUF012
        "query_likely": Figure(
            "query range",
            "%",
            "Half the width of the range in which the true answer of a random COUNT query lies nine times in ten, "
            "relative to the estimate, or to 1 % of all rows if that is more; the median.",
        ),
        "query_interval": Figure(
            "certain range",
            "%",
            "The same of the range in which the true answer must lie, whatever the model says.",
        ),
    }

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._questions = [question_of(query) for query in draw_queries(request.policy, request.seed, QUERIES)]

    def measure(self, reading: Reading) -> Figures:
        published = reading.published
        if not published.rows:
            return dict.fromkeys(self.figures)
        answers = reading.answers
        counts = [answers.count(question) for question in self._questions]
        least = SANITY * published.rows
        size = [2 * max(count.estimate, least) for count in counts]
        certain = [(count.high - count.low) / each for count, each in zip(counts, size, strict=True)]
        likely = [(count.likely[1] - count.likely[0]) / each for count, each in zip(counts, size, strict=True)]
        return {"query_likely": float(np.median(likely)), "query_interval": float(np.median(certain))}

    def pictures(self, series: Sequence[Figures]) -> Sequence[Picture]:
        if all(figures.get("query_interval") is None for figures in series):
            return ()
        lines = [curve(series, "query_likely", "nine times in ten"), curve(series, "query_interval", "certainly")]
        panel = Panel("What queries leave open", "release", "of the estimate", lines, is_percent=True)
        return (Picture(panel, "How far the truth of a random COUNT query may be from the estimate."),)
