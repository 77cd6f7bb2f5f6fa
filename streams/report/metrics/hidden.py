"""What a release leaves out, says less exactly or adds: withheld people, suppressed, raised and surplus values."""

from collections.abc import Sequence

from shoal.streams.report.metrics.metric import Figure, Figures, Metric, Picture, Reading, Tile, curve, people_present
from shoal.streams.report.panel import Line, Panel


class Hidden(Metric):
    """Values shown as "*" or as a node above them, and values that are nobody's, in numbers and as a share."""

    figures = {  # noqa: RUF012
        "suppressed": Figure("suppressed", ",", "Values shown as “*”."),
        "generalized": Figure("raised", ",", "Values shown as something more general."),
        "hidden_share": Figure("suppressed or raised", "%", "Both, as a share of all values shown."),
        "counterfeits": Figure("surplus", ",", "Values shown that are nobody’s, so that a group comes out even."),
        "surplus_share": Figure("surplus share", "%", "Of all values shown."),
    }

    def measure(self, reading: Reading) -> Figures:
        shown = int(reading.published.shown_count.sum())
        share = reading.manifest["counterfeits"] / shown if shown else None
        stated = reading.stated("suppressed", "generalized", "counterfeits")
        return stated | reading.measured("hidden_share") | {"surplus_share": share}

    def tiles(self, last: Figures) -> Sequence[Tile]:
        hidden = last["suppressed"] + last["generalized"]
        return (
            Tile("suppressed or raised", f"{hidden:,}", f"{self.write(last, 'hidden_share')} of the values"),
            Tile("surplus", f"{last['counterfeits']:,}", f"{self.write(last, 'surplus_share')} of the values"),
        )

    def pictures(self, series: Sequence[Figures]) -> Sequence[Picture]:
        x = [figures["release"] for figures in series]
        withheld = [figures["withheld"] / max(1, people_present(figures)) for figures in series]
        lines = [
            Line("withheld (of the people)", x, withheld),
            curve(series, "hidden_share", "suppressed or raised (of the values)"),
            curve(series, "surplus_share", "surplus (of the values)"),
        ]
        panel = Panel("Withheld, suppressed, raised, surplus", "release", "share", lines, is_percent=True)
        return (Picture(panel, "What a release leaves out, says less exactly, or adds."),)
