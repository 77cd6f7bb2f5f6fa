"""How wrong a release answers contrasts, where a value is much more or less common than elsewhere.

Only with the events. Beside the error stands what overall shares alone give, and what true values in the same regions
would give.
"""

from collections.abc import Sequence

from shoal.core.measure.contrast import compare, draw_contrasts
from shoal.streams.report.metrics.metric import Figure, Figures, Metric, Picture, Reading, Tile, curve
from shoal.streams.report.panel import Panel


class Contrasts(Metric):
    """The median relative error of questions that are drawn from the true table of each release."""

    figures = {  # noqa: RUF012
        "contrast_error": Figure(
            "contrasts, median",
            "%",
            "How wrong the release answers contrasts: COUNT queries on a value that is at least 1.5 times as common in "
            "their region as everywhere, or at most 1/1.5 times.",
        ),
        "contrast_alone": Figure(
            "shares alone", "%", "The same for somebody who sees no groups, only how common each value is everywhere."
        ),
        "contrast_true": Figure(
            "true values", "%", "The same if every row showed its true value in its region: what regions alone cost."
        ),
        "contrast_kept": Figure(
            "kept",
            "%",
            "The share of the information that is kept: how far the release comes from shares alone to true values.",
        ),
    }

    def measure(self, reading: Reading) -> Figures:
        if reading.truth is None or not reading.published.rows:
            return {}
        drawn = draw_contrasts(self.request.policy, reading.true_table, self.request.seed, self.request.queries)
        if not drawn.queries:
            return {}
        found = compare(reading.answers, reading.true_table, *drawn)
        return {
            "contrast_error": found.error,
            "contrast_alone": found.alone,
            "contrast_true": found.true,
            "contrast_kept": found.kept,
        }

    def tiles(self, last: Figures) -> Sequence[Tile]:
        if "contrast_error" not in last:
            return ()
        beside = f"{self.write(last, 'contrast_alone')} by shares alone, {self.write(last, 'contrast_true')} at best"
        return (Tile("contrasts", self.write(last, "contrast_error"), beside),)

    def pictures(self, series: Sequence[Figures]) -> Sequence[Picture]:
        if all(figures.get("contrast_error") is None for figures in series):
            return ()
        lines = [
            curve(series, "contrast_alone", "shares alone"),
            curve(series, "contrast_error", "this release"),
            curve(series, "contrast_true", "true values"),
        ]
        panel = Panel("Error of contrasts", "release", "relative error, median", lines, is_percent=True)
        return (Picture(panel, "Is a value more common here than elsewhere? Against the true table."),)
