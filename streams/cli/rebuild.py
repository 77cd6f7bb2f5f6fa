"""`shoal rebuild`: rebuilds Redis from a snapshot and the topics."""

import json
from pathlib import Path

import click

from shoal.streams.cli.terminal import bar, json_option


@click.command()
@click.option("--policy", type=click.Path(path_type=Path), help="The table's policy [default: SHOAL_POLICY].")
@click.option(
    "--snapshot",
    type=click.Path(path_type=Path),
    help="A snapshot, or a folder with snapshots; the newest usable one is taken [default: the policy's folder].",
)
@json_option
@click.pass_context
def command(ctx: click.Context, policy: Path | None, snapshot: Path | None, as_json: bool) -> None:
    """Rebuild Redis from the topics, and compare every release with what was published.

    Use it after Redis has lost its data or was restored from an old copy. It begins at the newest snapshot that can be
    used, or, without one, at the first event. It refuses to run if the releases were made by another version of the
    engine, or if events since the snapshot are gone.
    """
    from shoal.streams.cli import is_debugging
    from shoal.streams.settings import load_settings
    from shoal.streams.worker.rebuild import run_rebuild

    settings = load_settings(required=["policy", "key"], policy=None if policy is None else str(policy))
    with bar("rebuilding") as watcher:
        rebuilt = run_rebuild(settings, snapshot, watcher, debug=is_debugging(ctx))
    if as_json:
        click.echo(json.dumps(rebuilt._asdict()))
    elif rebuilt.made is None:
        click.echo(f"Redis already has release {rebuilt.release} of table {rebuilt.table}, the last one published.")
    else:
        since = "" if rebuilt.snapshot is None else f" since the snapshot of release {rebuilt.snapshot}"
        click.echo(f"Table {rebuilt.table} is rebuilt: {rebuilt.made} releases{since}, each as it was published.")
