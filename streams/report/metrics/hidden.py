"""What a release leaves out, says less exactly or adds: withheld people, suppressed, raised and spare values."""

from collections.abc import Sequence

from shoal.streams.report.metrics.metric import Figure, Figures, Metric, Picture, Reading, Tile, curve, people_present
from shoal.streams.report.panel import Line, Panel


class Hidden(Metric):
    """Values shown as "*" or as a node above them, and values that have no row, in numbers and as a share.

    In a redrawn table these are nobody's; in a lasting one they are vacant, since their spells ended.
    """

    figures = {  # noqa: RUF012
        "suppressed": Figure("suppressed", ",", "Values shown as “*”."),
        "waiting": Figure("waiting", ",", "Of these, values that wait for company (lasting tables)."),
        "generalized": Figure("raised", ",", "Values shown as something more general."),
        "hidden_share": Figure("suppressed or raised", "%", "Suppressed and raised, as a share of all values shown."),
        "counterfeits": Figure(
            "surplus", ",", "Values shown that are nobody’s, so that a group comes out even (redrawn tables)."
        ),
        "surplus_share": Figure("surplus share", "%", "Of all values shown."),
        "vacant": Figure("vacant", ",", "Values of settled groups that have no row now (lasting tables)."),
        "vacant_share": Figure("vacant share", "%", "Of all values shown."),
    }

    def measure(self, reading: Reading) -> Figures:
        shown = int(reading.published.shown_count.sum())
        name, share_of = self._spare
        share = reading.manifest[name] / shown if shown else None
        stated = reading.stated("suppressed", "generalized", *(("waiting", name) if self._is_lasting else (name,)))
        return stated | reading.measured("hidden_share") | {share_of: share}

    def tiles(self, last: Figures) -> Sequence[Tile]:
        hidden = last["suppressed"] + last["generalized"]
        name, share_of = self._spare
        return (
            Tile("suppressed or raised", f"{hidden:,}", f"{self.write(last, 'hidden_share')} of the values"),
            Tile(self.figures[name].head, f"{last[name]:,}", f"{self.write(last, share_of)} of the values"),
        )

    def pictures(self, series: Sequence[Figures]) -> Sequence[Picture]:
        x = [figures["release"] for figures in series]
        withheld = [figures["withheld"] / max(1, people_present(figures)) for figures in series]
        name, share_of = self._spare
        head = self.figures[name].head
        lines = [
            Line("withheld (of the people)", x, withheld),
            curve(series, "hidden_share", "suppressed or raised (of the values)"),
            curve(series, share_of, f"{head} (of the values)"),
        ]
        panel = Panel(f"Withheld, suppressed, raised, {head}", "release", "share", lines, is_percent=True)
        return (Picture(panel, "What a release leaves out, says less exactly, or shows without a row."),)

    @property
    def _is_lasting(self) -> bool:
        return self.request.policy.values == "lasting"

    @property
    def _spare(self) -> tuple[str, str]:
        """The figures of the values that have no row: how many, and as a share."""
        return ("vacant", "vacant_share") if self._is_lasting else ("counterfeits", "surplus_share")
