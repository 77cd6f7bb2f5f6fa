"""`shoal report`: measures how much a series of releases lost, as one page with plots."""

from pathlib import Path

import click

from shoal.streams.cli.event_format import choice_of, format_options
from shoal.streams.cli.terminal import bar, json_option


@click.command()
@click.argument("policy", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--events",
    multiple=True,
    type=click.Path(allow_dash=True),
    help="Events that OUT was made from, to measure query errors; repeat for several files, in order.",
)
@format_options("Each of the events files")
@click.option("--audit", type=click.Path(path_type=Path), help="Folder that `shoal replay --audit` wrote; private.")
@click.option(
    "--out",
    "to",
    type=click.Path(path_type=Path),
    default=Path("report"),
    show_default=True,
    help="Folder to write; not for publication if --events or --audit is given.",
)
@click.option(
    "--queries", type=click.IntRange(1), default=1000, show_default=True, help="How many COUNT queries to ask."
)
@click.option("--seed", default="queries", show_default=True, help="The same seed draws the same queries.")
@json_option
def command(
    policy: Path,
    out: Path,
    events: tuple[str, ...],
    event_format: str | None,
    mapping: Path | None,
    audit: Path | None,
    to: Path,
    queries: int,
    seed: str,
    as_json: bool,
) -> None:
    """Measure the releases in the folder OUT: losses, group sizes, budgets, and the error of random COUNT queries.

    Writes one page (index.html) and all figures as report.json. With only OUT it measures what anyone can see;
    --events adds the error against the true tables, --audit how much of their budgets people have spent.
    """
    from shoal.streams.errors import InputError
    from shoal.streams.files.policy_yaml import load_policy
    from shoal.streams.report.atlas import make_atlas
    from shoal.streams.report.metrics.metric import Request
    from shoal.streams.report.page import FIGURES_FILE, write_report
    from shoal.streams.report.series import make_metrics, read_series

    if not seed:
        raise click.BadParameter("must not be empty", param_hint="--seed")
    if out.resolve() in (to.resolve(), *to.resolve().parents):
        raise InputError("--out must not be inside OUT, which is published.")
    rules = load_policy(policy)
    request = Request(rules, out, events, audit, queries, seed, choice_of(event_format, mapping))
    metrics = make_metrics(request)
    with bar("reading releases") as shown:
        releases, published = read_series(request, metrics, shown)
    last = releases[-1]
    page = write_report(request, metrics, releases, make_atlas(last["release"], published), to)
    if as_json:
        click.echo((to / FIGURES_FILE).read_text(encoding="utf-8"), nl=False)
        return
    error = f", query error {last['query_error']:.1%}" if "query_error" in last else ""
    ncp = f", NCP {last['ncp']:.1%}" if last["ncp"] is not None else ""
    click.echo(
        f"{page}: {len(releases)} releases; the last has {last['people']} people in {last['groups']} groups, "
        f"max_breach {last['max_breach']:.4f} of {last['bound']:.4f}{ncp}{error}"
    )
