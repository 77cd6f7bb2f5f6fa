"""What the experiment on values that last found, as plots and as tables for docs/experiments.md."""

from shoal.streams.report.panel import Line, Panel
from tests.experiments.drawing import Plot, Shown, points, table
from tests.experiments.series import Figures

STAY = 0.95  # the figures have the others, too

_TABLES = {"adult": "Adult with churn", "synthea": "Synthea", "zipf": "Zipf crowd"}
_PANELS = {
    "hidden_share": ("Suppressed or raised", "of the values"),
    "spare_share": ("Counterfeits, or vacant", "of the values"),
    "query_error_median": ("Error of COUNT queries, median", "relative error"),
}
_COLUMNS = {
    "table": ("table", ""),
    "publisher": ("publisher", ""),
    "releases": ("release", ""),
    "withheld": ("withheld_share", "%%"),
    "`*` or raised": ("hidden_share", "%%"),
    "counterfeits, or vacant": ("spare_share", "%%"),
    "query error, median": ("query_error_median", "%"),
    "max_breach": ("max_breach", ""),
}
_CLAIMS = {
    "table": ("table", ""),
    "publisher": ("publisher", ""),
    "people": ("people", ","),
    "claims over 1/ℓ": ("over", ","),
    "right": ("over_right", ","),
    "over 0.9": ("sure", ","),
    "right ": ("sure_right", ","),
}


def show_lasting(figures: Figures) -> Shown:
    known = {name: label for name, label in _TABLES.items() if name in figures}
    panels, last, claims = [], [], []
    for key, (title, y_label) in _PANELS.items():
        for name, label in known.items():
            lines = [
                Line(publisher, *points(found["releases"], "release", key))
                for publisher, found in figures[name]["publishers"].items()
            ]
            panels.append(Panel(f"{title}: {label}", "release", y_label, lines, is_percent=True))
    for name, label in known.items():
        for publisher, found in figures[name]["publishers"].items():
            end = found["releases"][-1]
            breach = "–" if end["max_breach"] is None else f"{end['max_breach']:.3f}"
            last.append({**end, "table": label, "publisher": publisher, "max_breach": breach})
            claims += [
                {"table": label, "publisher": publisher, **one} for one in found["attack"] if one["stay"] == STAY
            ]
    attack = f"The persistence attack, which believes that values stay with probability {STAY}:"
    sizes = []
    for name, label in known.items():
        releases = figures[name]["publishers"]["lasting"]["releases"]
        sizes.append(f"{label} {figures[name]['people']:,} people in {len(releases)} releases")
    text = (
        f"Run: {'; '.join(sizes)}. The last release:\n\n{table(last, _COLUMNS)}\n\n{attack}\n\n{table(claims, _CLAIMS)}"
    )
    return Shown({"lasting.png": Plot(panels, columns=len(known))}, text)


_REASONS = {
    "table": ("table", ""),
    "insiders": ("insiders", ""),
    "release": ("release", ".0f"),
    "`*`": ("hidden", "%%"),
    "full": ("full", "%%"),
    "second": ("second", "%%"),
    "unfit": ("unfit", "%%"),
    "company": ("company", "%%"),
    "waiting": ("waiting", "%%"),
    "totals off by": ("totals", "%"),
    "vacant": ("vacant", "%"),
}


def show_settled(figures: Figures) -> Shown:
    return Shown({}, table(figures["releases"], _REASONS))
