"""A panel as SVG that stands in the page itself: the page's style gives it its colours, light or dark.

Nothing but the standard library is needed, so the worker can draw as `shoal report` does. Coordinates are rounded to a
tenth, so that the same figures give the same bytes.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from html import escape
from typing import Final, NamedTuple

from shoal.streams.report.panel import Line, Panel

WIDTH, HEIGHT = 520, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 14, 14, 44
_TICKS: Final = 5
_MARKED: Final = 40  # points of a line that still get a marker each
_COLOURS: Final = 6


class _Scale(NamedTuple):
    """From figures to a run of the drawing."""

    low: float
    high: float
    ticks: tuple[float, ...]
    place: Callable[[float], float]


def draw(panel: Panel) -> str:
    """The plot with its legend. A line of which nothing is known is left out."""
    panel = replace(panel, lines=[line for line in panel.lines if any(value is not None for value in line.y)])
    x, y = _scale_x(panel), _scale_y(panel)
    if x is None or y is None:
        return '<p class="empty">Nothing to draw yet.</p>'
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(panel.in_words())}">',
        *_grid(panel, x, y),
        *_lines(panel.lines, x, y),
        "</svg>",
        *_legend(panel.lines),
    ]
    return "\n".join(parts)


def _scale_x(panel: Panel) -> _Scale | None:
    found = [value for line in panel.lines for value in line.x]
    if not found:
        return None
    low, high = min(found), max(found)
    if low == high:
        low, high = low - 0.5, high + 0.5
    whole = all(float(value).is_integer() for value in found)
    ticks = [tick for tick in _round_ticks(low, high) if not whole or tick.is_integer()]

    def place(value: float) -> float:
        return _LEFT + (value - low) / (high - low) * (WIDTH - _LEFT - _RIGHT)

    return _Scale(low, high, tuple(ticks), place)


def _scale_y(panel: Panel) -> _Scale | None:
    known = [value for line in panel.lines for value in line.y if value is not None]
    if panel.is_log:
        known = [value for value in known if value > 0]
    if not known:
        return None
    low, high = min(known), panel.top or max(known)
    measure: Callable[[float], float] = math.log10 if panel.is_log else float
    if panel.is_from_zero and not panel.is_log:
        low = min(0.0, low)
    if low == high:
        high = low + (abs(low) or 1.0)
    ticks = _log_ticks(low, high) if panel.is_log else _round_ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])

    def place(value: float) -> float:
        share = (measure(value) - measure(low)) / (measure(high) - measure(low))
        return HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)

    return _Scale(low, high, tuple(ticks), place)


def _round_ticks(low: float, high: float) -> list[float]:
    """Round numbers that cover the span, about as many as there is room for."""
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 2 else (1,)
    ticks = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
    below = max((tick for tick in ticks if tick <= low), default=ticks[0])
    above = min((tick for tick in ticks if tick >= high), default=ticks[-1])
    return [tick for tick in ticks if below <= tick <= above]


def _grid(panel: Panel, x: _Scale, y: _Scale) -> Iterator[str]:
    for tick in y.ticks:
        at = _number(y.place(tick))
        label = f"{100 * tick:g} %" if panel.is_percent else f"{tick:,.10g}"
        yield f'<path class="grid" d="M{_LEFT} {at}H{WIDTH - _RIGHT}"/>'
        yield f'<text class="tick" x="{_LEFT - 8}" y="{at}" dy=".32em" text-anchor="end">{label}</text>'
    for tick in x.ticks:
        if x.low <= tick <= x.high:
            label = f"{tick:,.10g}"
            at, below = _number(x.place(tick)), HEIGHT - _BOTTOM + 18
            yield f'<text class="tick" x="{at}" y="{below}" text-anchor="middle">{label}</text>'
    middle = _number((_LEFT + WIDTH - _RIGHT) / 2)
    yield f'<text class="axis" x="{middle}" y="{HEIGHT - 4}" text-anchor="middle">{escape(panel.x_label)}</text>'
    up = _number((_TOP + HEIGHT - _BOTTOM) / 2)
    turned = f"translate(12 {up}) rotate(-90)"
    yield f'<text class="axis" transform="{turned}" text-anchor="middle">{escape(panel.y_label)}</text>'


def _lines(lines: Sequence[Line], x: _Scale, y: _Scale) -> Iterator[str]:
    for line, colour in zip(lines, _colours(lines), strict=True):
        points = [
            None if value is None or value < y.low else (x.place(at), y.place(value)) for at, value in _pairs(line)
        ]
        path, is_down = [], False
        for point in points:
            if point is not None:
                path.append(f"{'L' if is_down else 'M'}{_number(point[0])} {_number(point[1])}")
            is_down = point is not None
        yield f'<path class="line {colour}" d="{"".join(path)}"/>'
        if not line.is_bound and len(points) <= _MARKED:
            known = [point for point in points if point is not None]
            yield "".join(f'<circle class="{colour}" cx="{_number(a)}" cy="{_number(b)}" r="3"/>' for a, b in known)


def _pairs(line: Line) -> Iterator[tuple[float, float | None]]:
    return zip(line.x, line.y, strict=True)


def _legend(lines: Sequence[Line]) -> Iterator[str]:
    if len(lines) > 1:
        names = (
            f'<li><i class="{colour}"></i>{escape(line.label)}</li>'
            for line, colour in zip(lines, _colours(lines), strict=True)
        )
        yield f'<ul class="legend" aria-hidden="true">{"".join(names)}</ul>'


def _colours(lines: Sequence[Line]) -> list[str]:
    """The class of each line; bounds have one of their own."""
    found, drawn = [], 0
    for line in lines:
        found.append("bound" if line.is_bound else f"c{drawn % _COLOURS}")
        drawn += not line.is_bound
    return found


def _number(value: float) -> str:
    return f"{value:.1f}"
