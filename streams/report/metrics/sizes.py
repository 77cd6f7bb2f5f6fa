"""How large the groups of a release are."""

from collections.abc import Sequence

from shoal.streams.report.metrics.metric import Figure, Figures, Metric, Picture, Reading, Tile, curve
from shoal.streams.report.panel import Panel


class Sizes(Metric):
    """Rows per group: the average, the median and the largest."""

    figures = {  # noqa: RUF012
        "average_group": Figure(
            "rows per group", ".2f", "On average. A row is a person, or in a lasting table one value of a person."
        ),
        "median_group": Figure("median group", ".1f"),
        "largest_group": Figure("largest group", ","),
    }

    def measure(self, reading: Reading) -> Figures:
        return reading.measured(*self.figures)

    def tiles(self, last: Figures) -> Sequence[Tile]:
        return (Tile("rows per group", self.write(last, "average_group"), f"{last['groups']:,} groups"),)

    def pictures(self, series: Sequence[Figures]) -> Sequence[Picture]:
        labels = {"largest_group": "largest", "average_group": "average", "median_group": "median"}
        lines = [curve(series, name, label) for name, label in labels.items()]
        panel = Panel("Group sizes", "release", "rows", lines, is_log=True)
        return (Picture(panel, "The axis is logarithmic."),)
