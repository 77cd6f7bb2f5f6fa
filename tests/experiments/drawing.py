"""Figures as plots and as Markdown tables: what every experiment's page is made with."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shoal.streams.report.panel import Line, Panel
from tests.experiments.plot import draw
from tests.experiments.series import Figures


class Plot(NamedTuple):
    """One PNG: its panels, and how many stand beside each other."""

    panels: Sequence[Panel]
    columns: int = 2

    def png(self) -> bytes:
        return draw(self.panels, self.columns)


class Shown(NamedTuple):
    """The plots of an experiment by file name, and its tables as Markdown."""

    plots: dict[str, Plot]
    text: str


# How a figure is written: a format of Python, or % for a share with one digit, %% for one with two.
Columns = Mapping[str, tuple[str, str]]  # heading: (figure, how)


def curves(
    title: str,
    found: Sequence[Figures],
    x: str,
    keys: Mapping[str, str],
    y_label: str,
    x_label: str | None = None,
    *,
    is_percent: bool = False,
    beside: Line | None = None,
) -> Panel:
    """These figures over one that grows, and perhaps a bound beside them."""
    lines = [Line(label, *points(found, x, key)) for key, label in keys.items()]
    return Panel(title, x_label or x, y_label, [*lines, *([beside] if beside else [])], is_percent=is_percent)


def points(found: Sequence[Figures], x: str, y: str) -> tuple[list[float], list[float | None]]:
    return [figures[x] for figures in found], [figures[y] for figures in found]


def table(found: Sequence[Figures], columns: Columns) -> str:
    rows = [[write(figures[name], how) for name, how in columns.values()] for figures in found]
    lines = [[head.strip() for head in columns], ["---:"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def write(figure: float | str, how: str) -> str:
    if how in ("%", "%%") and not isinstance(figure, str):
        return f"{100 * figure:.{len(how)}f} %"
    return format(figure, how)
