"""How wrong a release answers random COUNT queries, against the true table; only with the events."""

from collections.abc import Sequence

from shoal.core.measure.query import count_true, draw_queries, query_error
from shoal.streams.report.metrics.metric import Figure, Figures, Metric, Picture, Reading, Request, Tile, curve
from shoal.streams.report.panel import Panel


class Queries(Metric):
    """The relative error of the same queries at every release. The same seed draws the same queries."""

    figures = {  # noqa: RUF012
        "query_error": Figure(
            "query error, mean",
            "%",
            "How wrong the release answers random COUNT queries on one to all attributes and a sensitive condition, "
            "relative to the truth, or to 1 % of all values if that is more.",
        ),
        "query_error_median": Figure("query error, median", "%", "Half of the queries are answered better."),
        "query_error_most": Figure("query error, 90 %", "%", "9 of 10 queries are answered better."),
    }

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._queries = draw_queries(request.policy, request.seed, request.queries) if request.events else ()

    def measure(self, reading: Reading) -> Figures:
        if reading.truth is None:
            return {}
        truth = reading.true_table
        answers = reading.answers.estimates(self._queries)
        error = query_error(answers, count_true(truth, self._queries), len(truth.leaves))
        return {"query_error": error.mean, "query_error_median": error.median, "query_error_most": error.most}

    def tiles(self, last: Figures) -> Sequence[Tile]:
        if "query_error" not in last:
            return ()
        median = f"{self.write(last, 'query_error_median')} median"
        return (Tile("query error", self.write(last, "query_error"), median),)

    def pictures(self, series: Sequence[Figures]) -> Sequence[Picture]:
        if all(figures.get("query_error") is None for figures in series):
            return ()
        lines = [curve(series, "query_error", "mean"), curve(series, "query_error_median", "median")]
        panel = Panel("Error of COUNT queries", "release", "relative error", lines, is_percent=True)
        return (Picture(panel, "Against the true table, withheld people included."),)
