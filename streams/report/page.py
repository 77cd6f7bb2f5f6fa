"""The report as one page that needs nothing else: figures as tiles, plots and a table, explained in words."""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from shoal.core.policy.policy import Policy
from shoal.streams.files.fresh_file import write_fresh
from shoal.streams.files.policy_summary import describe
from shoal.streams.report.metrics.metric import Figure, Figures, Metric, Picture, Request, Tile
from shoal.streams.report.plot import Panel, draw

PAGE, FIGURES_FILE = "index.html", "report.json"


def write_report(request: Request, metrics: Sequence[Metric], releases: Sequence[Figures], folder: Path) -> Path:
    """Writes the page, the plots and the figures as JSON to a folder; returns the page. Raises `StreamsError`."""
    pictures = [picture for metric in metrics for picture in metric.pictures(releases)]
    plots = [(picture, draw([picture.panel])) for picture in pictures]
    folder.mkdir(parents=True, exist_ok=True)
    for picture, png in plots:
        write_fresh(folder / picture.file, png)
    figures = {"table": request.policy.table, "policy": request.policy.digest, "releases": list(releases)}
    write_fresh(folder / FIGURES_FILE, (json.dumps(figures, indent=1, ensure_ascii=False) + "\n").encode())
    page = folder / PAGE
    write_fresh(page, render(request, metrics, releases, plots).encode())
    return page


def render(
    request: Request, metrics: Sequence[Metric], releases: Sequence[Figures], plots: Iterable[tuple[Picture, bytes]]
) -> str:
    """The page. A figure that no release has is left out of its table."""
    columns = {name: figure for metric in metrics for name, figure in metric.figures.items()}
    shown = {name: columns[name] for name in columns if any(figures.get(name) is not None for figures in releases)}
    template = Template(_resource("page.html"))
    return template.substitute(
        title=escape(f"Releases of {request.policy.table}"),
        style=_resource("page.css").rstrip(),
        lead=escape(_lead(releases)),
        tiles="\n".join(_tile(tile) for metric in metrics for tile in metric.tiles(releases[-1])),
        plots="\n".join(_figure(picture, png) for picture, png in plots),
        heads="<tr>" + "".join(f'<th scope="col">{escape(figure.head)}</th>' for figure in shown.values()) + "</tr>",
        rows="\n".join(_row(figures, shown) for figures in releases),
        policy="\n".join(_promises(request.policy)),
        words="\n".join(_pair(figure.head, figure.meaning) for figure in shown.values() if figure.meaning),
        source=escape(_source(request)),
    )


def _lead(releases: Sequence[Figures]) -> str:
    largest = max(figures["max_breach"] for figures in releases)
    bound = releases[-1]["bound"]
    count = f"{len(releases):,} releases" if len(releases) > 1 else "One release"
    kept = "within" if all(figures["max_breach"] <= figures["bound"] for figures in releases) else "OVER"
    return (
        f"{count}; someone who kept all of them can link nobody to a value with more than {largest:.4f}, "
        f"{kept} the bound of {bound:.4f}."
    )


def _tile(tile: Tile) -> str:
    name, value, remark = map(escape, tile)
    return f"<div><dt>{name}</dt><dd>{value}<small>{remark}</small></dd></div>"


def _figure(picture: Picture, png: bytes) -> str:
    encoded = base64.b64encode(png).decode()
    return (
        f'<figure><img src="data:image/png;base64,{encoded}" alt="{escape(_alternative(picture.panel))}">'
        f"<figcaption>{escape(picture.caption)}</figcaption></figure>"
    )


def _alternative(panel: Panel) -> str:
    """A plot in words, for readers who cannot see it: where each line begins and ends."""
    parts = []
    for line in panel.lines:
        known = [value for value in line.y if value is not None]
        if known:
            first, last = (
                f"{100 * value:.2f} %" if panel.is_percent else f"{value:.4g}" for value in (known[0], known[-1])
            )
            parts.append(f"{line.label} from {first} to {last}")
    over = "over the releases" if panel.x_label == "release" else f"by {panel.x_label}"
    return f"{panel.title} {over}: {'; '.join(parts)}."


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


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
