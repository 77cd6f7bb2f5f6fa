"""Plots over releases as PNG, drawn without a display, in colours that everybody can tell apart."""

import io
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, PercentFormatter, ScalarFormatter

from shoal.streams.report.panel import Panel

# Okabe and Ito's colours, with a marker each, so that neither colour nor print decides what can be read.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
INK, PALE = "#24292f", "#d8dee4"
PANEL_INCHES = (5.2, 3.6)
DOTS_PER_INCH = 110
LABEL_FITS = 24  # characters of a legend in half a panel


def draw(panels: Sequence[Panel], columns: int = 1) -> bytes:
    """The panels side by side, as one PNG."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width, height = PANEL_INCHES
    figure = Figure(figsize=(width * columns, height * rows), dpi=DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    for position, panel in enumerate(panels):
        _draw_panel(figure.add_subplot(rows, columns, position + 1), panel)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _draw_panel(axes: Axes, panel: Panel) -> None:
    drawn = 0
    for line in panel.lines:
        y = [float("nan") if value is None else value for value in line.y]
        if line.is_bound:
            axes.plot(line.x, y, color=INK, linestyle=(0, (5, 3)), linewidth=1.4, label=line.label)
            continue
        marker = MARKERS[drawn % len(MARKERS)] if len(y) <= 40 else None
        colour = COLOURS[drawn % len(COLOURS)]
        axes.plot(line.x, y, color=colour, marker=marker, markersize=4.5, linewidth=1.8, label=line.label)
        drawn += 1
    if panel.is_log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(ScalarFormatter())
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif panel.is_from_zero:
        axes.set_ylim(bottom=0, top=panel.top)
    if panel.is_percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    if all(float(x).is_integer() for line in panel.lines for x in line.x):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(panel.title, loc="left", fontsize=11, color=INK)
    axes.set_xlabel(panel.x_label, color=INK)
    axes.set_ylabel(panel.y_label, color=INK)
    axes.grid(axis="y", color=PALE, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if len(panel.lines) > 1:
        # below the axis, where it hides no line; beside each other only if both fit
        columns = 2 if max(len(line.label) for line in panel.lines) <= LABEL_FITS else 1
        below = (0.0, -0.2)
        axes.legend(loc="upper left", bbox_to_anchor=below, borderaxespad=0, frameon=False, fontsize=9, ncols=columns)
