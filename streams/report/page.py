"""The report as one page that needs nothing else: figures as tiles, plots and a table, explained in words."""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from shoal.core.policy.policy import Policy
from shoal.streams.files.policy_summary import describe
from shoal.streams.report.plot import Line, Panel, draw
from shoal.streams.report.series import Figures, Request
from shoal.streams.report.words import FIGURES

PAGE, FIGURES_FILE = "index.html", "report.json"


class Picture(NamedTuple):
    """A plot with its file name and what it shows, in a sentence."""

    file: str
    panel: Panel
    caption: str


def write_report(request: Request, releases: Sequence[Figures], folder: Path) -> Path:
    """Writes the page, the plots and the figures as JSON to a folder; returns the page. Raises `StreamsError`."""
    plots = [(picture, draw([picture.panel])) for picture in pictures(releases)]
    folder.mkdir(parents=True, exist_ok=True)
    for picture, png in plots:
        (folder / picture.file).write_bytes(png)
    figures = {"table": request.policy.table, "policy": request.policy.digest, "releases": list(releases)}
    (folder / FIGURES_FILE).write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    page = folder / PAGE
    page.write_text(render(request, releases, plots), encoding="utf-8")
    return page


def pictures(releases: Sequence[Figures]) -> list[Picture]:
    """The plots that the figures allow."""
    x = [figures["release"] for figures in releases]

    def line(name: str, label: str, is_bound: bool = False) -> Line:
        return Line(label, x, [figures.get(name) for figures in releases], is_bound)

    def has(name: str) -> bool:
        return any(figures.get(name) is not None for figures in releases)

    breach = [line("max_breach", "largest (max_breach)"), line("bound", "bound", is_bound=True)]
    if has("breach_most"):
        breach[1:1] = [line("breach_most", "95 % of the people below"), line("breach_median", "half below")]
    withheld = [figures["withheld"] / max(1, _present(figures)) for figures in releases]
    hidden = [
        Line("withheld (of the people)", x, withheld),
        line("hidden_share", "suppressed or raised (of the values)"),
    ]
    sizes = [line("largest_group", "largest"), line("average_group", "average"), line("median_group", "median")]
    groups = [line("carried", "carried"), line("formed", "newly formed")]
    found = [
        Picture("breach.png", Panel("Breach", "release", "probability", breach), "Over all releases so far."),
        Picture(
            "hidden.png",
            Panel("Withheld, suppressed or raised", "release", "share", hidden, is_percent=True),
            "What a release leaves out or says less exactly.",
        ),
        Picture(
            "sizes.png",
            Panel("Group sizes", "release", "people", sizes, is_log=True),
            "The axis is logarithmic.",
        ),
        Picture("groups.png", Panel("Groups", "release", "groups", groups), "Carried groups say nothing new."),
        Picture(
            "ncp.png",
            Panel("NCP", "release", "of the domain", [line("ncp", "NCP")], is_percent=True),
            "How coarse the regions are; they only get finer for those who stay.",
        ),
    ]
    if has("query_error"):
        errors = [line("query_error", "mean"), line("query_error_median", "median")]
        panel = Panel("Error of COUNT queries", "release", "relative error", errors, is_percent=True)
        found.append(Picture("queries.png", panel, "Against the true table, withheld people included."))
    return found


def render(request: Request, releases: Sequence[Figures], plots: Iterable[tuple[Picture, bytes]]) -> str:
    """The page."""
    shown = [name for name in FIGURES if any(figures.get(name) is not None for figures in releases)]
    template = Template(_resource("page.html"))
    return template.substitute(
        title=escape(f"Releases of {request.policy.table}"),
        style=_resource("page.css").rstrip(),
        lead=escape(_lead(releases)),
        tiles="\n".join(_tiles(releases[-1])),
        plots="\n".join(_figure(picture, png) for picture, png in plots),
        heads="<tr>" + "".join(f'<th scope="col">{escape(FIGURES[name].head)}</th>' for name in shown) + "</tr>",
        rows="\n".join(_row(figures, shown) for figures in releases),
        policy="\n".join(_promises(request.policy)),
        words="\n".join(_pair(FIGURES[name].head, FIGURES[name].meaning) for name in shown if FIGURES[name].meaning),
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


def _tiles(last: Figures) -> Iterable[str]:
    present, hidden = _present(last), last["suppressed"] + last["generalized"]
    tiles = [
        ("rows", f"{last['rows']:,}", f"of {present:,} people present"),
        ("withheld", f"{last['withheld']:,}", f"{100 * last['withheld'] / max(1, present):.2f} % of the people"),
        ("suppressed or raised", f"{hidden:,}", _of(last, "hidden_share", "of the values")),
        ("max_breach", f"{last['max_breach']:.4f}", f"bound {last['bound']:.4f}"),
        ("people per group", FIGURES["average_group"].write(last["average_group"]), f"{last['groups']:,} groups"),
        ("NCP", FIGURES["ncp"].write(last["ncp"]), "0 % is exact"),
    ]
    if "query_error" in last:
        mean, median = FIGURES["query_error"].write(last["query_error"]), _of(last, "query_error_median", "median")
        tiles.append(("query error", mean, median))
    for name, value, remark in tiles:
        yield f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(remark)}</small></dd></div>"


def _of(figures: Figures, name: str, words: str) -> str:
    return f"{FIGURES[name].write(figures[name])} {words}"


def _figure(picture: Picture, png: bytes) -> str:
    encoded = base64.b64encode(png).decode()
    return (
        f'<figure><img src="data:image/png;base64,{encoded}" alt="{escape(_alternative(picture.panel))}">'
        f"<figcaption>{escape(picture.caption)}</figcaption></figure>"
    )


def _alternative(panel: Panel) -> str:
    """A plot in words, for whoever cannot see it: where each line begins and ends."""
    parts = []
    for line in panel.lines:
        known = [value for value in line.y if value is not None]
        if known:
            first, last = (
                f"{100 * value:.2f} %" if panel.is_percent else f"{value:.4g}" for value in (known[0], known[-1])
            )
            parts.append(f"{line.label} from {first} to {last}")
    return f"{panel.title} over the releases: {'; '.join(parts)}. The table below has every figure."


def _row(figures: Figures, shown: Sequence[str]) -> str:
    cells = [escape(FIGURES[name].write(figures.get(name))) for name in shown]
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


def _present(figures: Mapping[str, Any]) -> int:
    return int(figures["rows"]) + int(figures["withheld"]) + int(figures["unsampled"])


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
