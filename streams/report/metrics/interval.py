"""How much a release leaves open: how wide the interval is within which the true answer of a COUNT query must lie.

Anyone can work it out, since it needs no truth. It is a bound on the error of whoever answers from the release alone.
"""

from collections.abc import Sequence

import numpy as np

from shoal.core.measure.count import Question, count_values
from shoal.core.measure.query import SANITY, Query, draw_queries
from shoal.streams.report.metrics.metric import Figure, Figures, Metric, Picture, Reading, Request, curve
from shoal.streams.report.panel import Panel

QUERIES = 50  # each reads the whole release


class Interval(Metric):
    """The middle one of the widths, of the same queries at every release."""

    figures = {  # noqa: RUF012
        "query_interval": Figure(
            "query interval",
            "%",
            "Half the width of the interval in which the true answer of a random COUNT query must lie, relative to the "
            "estimate, or to 1 % of all rows if that is more; the median.",
        ),
    }

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._questions = [_question(query) for query in draw_queries(request.policy, request.seed, QUERIES)]

    def measure(self, reading: Reading) -> Figures:
        published = reading.published
        if not published.rows:
            return {"query_interval": None}
        counts = [count_values(published, question) for question in self._questions]
        least = SANITY * published.rows
        widths = [(count.high - count.low) / 2 / max(count.estimate, least) for count in counts]
        return {"query_interval": float(np.median(widths))}

    def pictures(self, series: Sequence[Figures]) -> Sequence[Picture]:
        if all(figures.get("query_interval") is None for figures in series):
            return ()
        lines = [curve(series, "query_interval", "half the interval, median")]
        panel = Panel("What queries leave open", "release", "of the estimate", lines, is_percent=True)
        return (Picture(panel, "The largest error that an answer from the release alone can have."),)


def _question(query: Query) -> Question:
    return Question(tuple((position, (run,)) for position, run in query.conditions), (query.sensitive,))
