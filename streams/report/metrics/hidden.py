"""What a release leaves out or says less exactly: withheld people, suppressed and raised values."""

from collections.abc import Sequence

from shoal.streams.report.metrics.metric import Figure, Figures, Metric, Picture, Reading, Tile, curve, people_present
from shoal.streams.report.plot import Line, Panel


class Hidden(Metric):
    """Values shown as "*" or as a node above them, in numbers and as a share."""

    figures = {  # noqa: RUF012
        "suppressed": Figure("suppressed", ",", "Values shown as “*”."),
        "generalized": Figure("raised", ",", "Values shown as something more general."),
        "hidden_share": Figure("suppressed or raised", "%", "Both, as a share of all values shown."),
    }

    def measure(self, reading: Reading) -> Figures:
        return reading.stated("suppressed", "generalized") | reading.measured("hidden_share")

    def tiles(self, last: Figures) -> Sequence[Tile]:
        hidden = last["suppressed"] + last["generalized"]
        return (Tile("suppressed or raised", f"{hidden:,}", f"{self.write(last, 'hidden_share')} of the values"),)

    def pictures(self, series: Sequence[Figures]) -> Sequence[Picture]:
        x = [figures["release"] for figures in series]
        withheld = [figures["withheld"] / max(1, people_present(figures)) for figures in series]
        lines = [
            Line("withheld (of the people)", x, withheld),
            curve(series, "hidden_share", "suppressed or raised (of the values)"),
        ]
        panel = Panel("Withheld, suppressed or raised", "release", "share", lines, is_percent=True)
        return (Picture("hidden.png", panel, "What a release leaves out or says less exactly."),)
