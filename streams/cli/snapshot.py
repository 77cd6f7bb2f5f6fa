"""`shoal snapshot`: writes the state of a table at its last release to a file."""

import json
from pathlib import Path

import click

from shoal.streams.cli.terminal import bar, json_option


@click.command()
@click.argument("to", type=click.Path(path_type=Path), required=False)
@click.option("--policy", type=click.Path(path_type=Path), help="The table's policy [default: SHOAL_POLICY].")
@json_option
@click.pass_context
def command(ctx: click.Context, to: Path | None, policy: Path | None, as_json: bool) -> None:
    """Write the whole state at the last release to one encrypted file.

    TO is a file, or a folder that exists; by default it is the policy's folder of snapshots. Workers may run meanwhile.
    `shoal restore` and `shoal rebuild` read it.
    """
    from shoal.streams.cli import is_debugging
    from shoal.streams.settings import load_settings
    from shoal.streams.snapshot.take import run_snapshot

    settings = load_settings(required=["policy", "key"], policy=None if policy is None else str(policy))
    with bar("taking a snapshot") as watcher:
        taken = run_snapshot(settings, to, watcher, debug=is_debugging(ctx))
    if as_json:
        click.echo(json.dumps({**taken._asdict(), "path": str(taken.path)}))
        return
    click.echo(
        f"{taken.path}: release {taken.release}, {taken.published:,} people published, records of {taken.people:,}, "
        f"{taken.bytes:,} bytes"
    )
