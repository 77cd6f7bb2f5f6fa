"""How many groups a release has, and how many of them were carried over from the one before."""

from collections.abc import Sequence

from shoal.streams.report.metrics.metric import Figure, Figures, Metric, Picture, Reading, curve
from shoal.streams.report.panel import Line, Panel


class Groups(Metric):
    """Groups, as the manifest states them."""

    figures = {  # noqa: RUF012
        "groups": Figure("groups", ","),
        "carried": Figure(
            "carried",
            ",",
            "Groups published again as they were, because nobody in them changed, came or left. They say nothing new "
            "and cost nothing.",
        ),
    }

    def measure(self, reading: Reading) -> Figures:
        return reading.stated("groups", "formed", "carried")

    def pictures(self, series: Sequence[Figures]) -> Sequence[Picture]:
        lines = [curve(series, "carried", "carried"), curve(series, "formed", "newly formed")]
        changed = [figures["groups"] - figures["formed"] - figures["carried"] for figures in series]
        if any(changed):  # in a lasting table a group lives on while people come and go
            lines.append(Line("changed", lines[0].x, changed))
        panel = Panel("Groups", "release", "groups", lines)
        return (Picture(panel, "Carried groups say nothing new."),)
