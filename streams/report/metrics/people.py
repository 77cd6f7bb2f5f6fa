"""Which release it is, how many people it shows, and how many it leaves out."""

from collections.abc import Sequence

from shoal.streams.report.metrics.metric import Figure, Figures, Metric, Reading, Tile, people_present


class People(Metric):
    """People, their rows, and withheld people, as the manifest states them."""

    figures = {  # noqa: RUF012 - never changed, as all of these
        "release": Figure("release", ""),
        "published_at": Figure("as of", ""),
        "people": Figure("people", ",", "People published in this release."),
        "rows": Figure("rows", ",", "Published rows: one for each person, or in a lasting table for each value."),
        "withheld": Figure("withheld", ",", "People left out of this release. They are late, not lost."),
    }

    def measure(self, reading: Reading) -> Figures:
        return reading.stated("release", "published_at", "people", "rows", "withheld", "unsampled")

    def tiles(self, last: Figures) -> Sequence[Tile]:
        present = people_present(last)
        share = f"{100 * last['withheld'] / max(1, present):.2f} % of the people"
        return (
            Tile("people", f"{last['people']:,}", f"of {present:,} people present"),
            Tile("withheld", f"{last['withheld']:,}", share),
        )
