"""`shoal restore`: brings a snapshot into an empty Redis."""

import json
from pathlib import Path

import click

from shoal.streams.cli.terminal import bar, json_option


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--policy", type=click.Path(path_type=Path), help="The table's policy [default: SHOAL_POLICY].")
@json_option
@click.pass_context
def command(ctx: click.Context, file: Path, policy: Path | None, as_json: bool) -> None:
    """Bring a snapshot into a Redis that holds nothing of the table.

    The worker goes on from there if nothing was published since. Otherwise use `shoal rebuild`, which starts from the
    snapshot and makes the releases since again.
    """
    from shoal.streams.cli import is_debugging
    from shoal.streams.settings import load_settings
    from shoal.streams.snapshot.restore import run_restore

    settings = load_settings(required=["policy", "key"], policy=None if policy is None else str(policy))
    with bar("restoring"):
        head = run_restore(settings, file, debug=is_debugging(ctx))
    if as_json:
        click.echo(json.dumps({"release": head.meta.release, "people": head.counts.people}))
        return
    click.echo(f"Redis has release {head.meta.release} now: {head.counts.people:,} people.")
