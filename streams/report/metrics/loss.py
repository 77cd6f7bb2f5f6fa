"""How coarse the regions and values of a release are (Pei, section 3; Xiao and Tao, section 4)."""

from collections.abc import Sequence

from shoal.streams.report.metrics.metric import Figure, Figures, Metric, Picture, Reading, Tile, curve
from shoal.streams.report.panel import Panel


class Losses(Metric):
    """NCP, discernibility, and the information loss of rows and values."""

    figures = {  # noqa: RUF012
        "ncp": Figure(
            "NCP",
            "%",
            "How much of its domain an attribute of a row spans, on average over rows and attributes: 0 is exact.",
        ),
        "discernibility": Figure("discernibility", ",", "The sum over regions of the square of their rows."),
        "qid_loss": Figure(
            "loss per row",
            ".4f",
            "Xiao and Tao’s information loss of a row’s quasi-identifiers: for each, how many other values of the "
            "domain it might have, as a share of the domain, added up.",
        ),
        "sensitive_loss": Figure(
            "loss per value", ".4f", "Their information loss of a sensitive value: 0 as it is, nearly 1 for “*”."
        ),
    }

    def measure(self, reading: Reading) -> Figures:
        return reading.measured(*self.figures)

    def tiles(self, last: Figures) -> Sequence[Tile]:
        return (Tile("NCP", self.write(last, "ncp"), "0 % is exact"),)

    def pictures(self, series: Sequence[Figures]) -> Sequence[Picture]:
        panel = Panel("NCP", "release", "of the domain", [curve(series, "ncp", "NCP")], is_percent=True)
        return (Picture(panel, "How coarse the regions are; they only get finer for those who stay."),)
