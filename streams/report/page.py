"""The page on the releases of a table, one for all: `shoal report` writes it to a file, the worker serves it live.

All that stands still is plain HTML, made here from the metrics' figures, tiles, plots and sentences; page.js adds the
map of a release and keeps the state of a live worker fresh. A page loads nothing from elsewhere, and says so to the
browser: a file allows exactly the style and the script it brings along, by their hashes.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from shoal.core.policy.policy import Policy
from shoal.streams.files.fresh_file import write_fresh
from shoal.streams.files.policy_summary import describe
from shoal.streams.report.metrics.metric import Figure, Figures, Metric, Picture, Request, Tile
from shoal.streams.report.svg import draw

PAGE, FIGURES_FILE = "index.html", "report.json"
STYLE, SCRIPT = "page.css", "page.js"


@dataclass(frozen=True)
class Series:
    """What the page is about: a table's releases in order, what each metric found in them, and where it looked."""

    policy: Policy
    metrics: Sequence[Metric]
    releases: Sequence[Figures]
    source: str


class Frame:
    """What a page has around its figures: a file brings everything along, a worker serves it beside the page."""

    head = f'<link rel="stylesheet" href="{STYLE}">\n<script src="{SCRIPT}" defer></script>'
    now = ""  # the state of the worker
    known = ""  # which releases can be looked into
    data = ""


class InOneFile(Frame):
    """A page that needs nothing else; `atlas` is the release to look into."""

    def __init__(self, atlas: Mapping[str, Any]) -> None:
        style, script = resource(STYLE), resource(SCRIPT)
        rules = f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}"
        self.head = f'<meta http-equiv="Content-Security-Policy" content="{rules}">\n<style>{style}</style>'
        # "<" could end the element
        brought = json.dumps(atlas, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        self.data = f'<script type="application/json" id="atlas">{brought}</script>\n<script>{script}</script>'


def write_report(
    request: Request, metrics: Sequence[Metric], releases: Sequence[Figures], atlas: Mapping[str, Any], folder: Path
) -> Path:
    """Writes the page and the figures as JSON to a folder; returns the page. Raises `StreamsError`."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {"table": request.policy.table, "policy": request.policy.digest, "releases": list(releases)}
    write_fresh(folder / FIGURES_FILE, (json.dumps(figures, indent=1, ensure_ascii=False) + "\n").encode())
    page = folder / PAGE
    series = Series(request.policy, metrics, releases, _source(request))
    write_fresh(page, render(series, InOneFile(atlas)).encode())
    return page


def render(series: Series, frame: Frame) -> str:
    """The page. A figure that no release has is left out of its table."""
    metrics, releases = series.metrics, series.releases
    columns = {name: figure for metric in metrics for name, figure in metric.figures.items()}
    shown = {name: columns[name] for name in columns if any(figures.get(name) is not None for figures in releases)}
    last = releases[-1] if releases else None
    parts = {
        "title": escape(f"Releases of {series.policy.table}"),
        "head": frame.head,
        "lead": _prose(_lead(releases)),
        "now": frame.now,
        "tiles": [write_tile(tile) for metric in metrics for tile in (metric.tiles(last) if last else ())],
        "plots": [_figure(picture) for metric in metrics for picture in (metric.pictures(releases) if last else ())],
        "known": frame.known,
        "attack": [f"<p>{_prose(text)}</p>" for metric in metrics for text in (metric.warnings(last) if last else ())],
        "heads": "<tr>" + "".join(f'<th scope="col">{escape(figure.head)}</th>' for figure in shown.values()) + "</tr>",
        "rows": [_row(figures, shown) for figures in releases],
        "policy": _promises(series.policy),
        "words": [_pair(figure.head, figure.meaning) for figure in shown.values() if figure.meaning],
        "source": _prose(series.source),
        "data": frame.data,
    }
    written = {name: part if isinstance(part, str) else "\n".join(part) for name, part in parts.items()}
    return Template(resource("page.html")).substitute(written)


def resource(name: str) -> str:
    """A file that belongs to the page."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def write_tile(tile: Tile) -> str:
    name, value, remark = map(escape, tile)
    return f"<div><dt>{name}</dt><dd>{value}<small>{remark}</small></dd></div>"


def _prose(text: str) -> str:
    """A sentence as HTML, with commands between backticks set as such."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _lead(releases: Sequence[Figures]) -> str:
    if not releases:
        return "Nothing is published yet."
    largest = max(figures["max_breach"] for figures in releases)
    bound = releases[-1]["bound"]
    count = f"{len(releases):,} releases" if len(releases) > 1 else "One release"
    promised = (
        f"{count}. Promised: whoever keeps them all is never surer than {bound:.0%} of anybody's protected value."
    )
    if any(figures["max_breach"] > figures["bound"] for figures in releases):
        return f"{promised} BROKEN: by what they say of themselves, somebody can be {largest:.0%} sure of a value."
    return (
        f"{promised} By what they say of themselves this is kept: the surest anybody can be is {largest:.0%}. "
        "Not promised: what people in the table infer from their own values, and what goes together with the "
        "attributes. `shoal audit` checks the promises and counts the rest."
    )


def _figure(picture: Picture) -> str:
    title, caption = escape(picture.panel.title), escape(picture.caption)
    return f"<figure><h3>{title}</h3>\n{draw(picture.panel)}\n<figcaption>{caption}</figcaption></figure>"


def _row(figures: Figures, shown: Mapping[str, Figure]) -> str:
    cells = [escape(figure.write(figures.get(name))) for name, figure in shown.items()]
    first, *others = cells
    return f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in others) + "</tr>"


def _promises(policy: Policy) -> Iterable[str]:
    for text in describe(policy):
        name, _, words = text.partition("  ")
        yield _pair(name, words.strip())


def _pair(term: str, meaning: str) -> str:
    return f"<dt>{escape(term)}</dt><dd>{escape(meaning)}</dd>"


def _source(request: Request) -> str:
    parts = ["the published records"]
    if request.audit:
        parts.append("the private membership")
    if request.events:
        parts.append(f"the true tables, asked {request.queries:,} queries")
    return f"Made from {', '.join(parts)}. `shoal audit` says whether every promise was kept; this page only measures."
