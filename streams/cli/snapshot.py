"""`shoal snapshot`: writes the state of a table at its last release to a file."""

from pathlib import Path

import click


@click.command()
@click.argument("to", type=click.Path(path_type=Path), required=False)
@click.option("--policy", type=click.Path(path_type=Path), help="The table's policy [default: SHOAL_POLICY].")
@click.pass_context
def command(ctx: click.Context, to: Path | None, policy: Path | None) -> None:
    """Write the whole state at the last release to one encrypted file.

    TO is a file, or a folder that exists; by default it is the policy's folder of snapshots. Workers may run meanwhile.
    `shoal restore` and `shoal rebuild` read it.
    """
    from shoal.streams.cli import is_debugging
    from shoal.streams.settings import load_settings
    from shoal.streams.snapshot.take import run_snapshot

    settings = load_settings(required=["policy", "key"], policy=None if policy is None else str(policy))
    taken = run_snapshot(settings, to, debug=is_debugging(ctx))
    click.echo(f"{taken.path}: release {taken.release}, {taken.people:,} people, {taken.bytes:,} bytes")
