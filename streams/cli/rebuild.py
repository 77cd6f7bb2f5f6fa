"""`shoal rebuild`: rebuilds Redis from a snapshot and the topics."""

from pathlib import Path

import click


@click.command()
@click.option("--policy", type=click.Path(path_type=Path), help="The table's policy [default: SHOAL_POLICY].")
@click.option(
    "--snapshot",
    type=click.Path(path_type=Path),
    help="A snapshot, or a folder whose newest usable one it is [default: the policy's folder].",
)
@click.pass_context
def command(ctx: click.Context, policy: Path | None, snapshot: Path | None) -> int:
    """Rebuild Redis from the topics, and compare every release with what was published.

    Use it after Redis has lost its data or was restored from an old copy. It begins at the newest snapshot that can be
    used, or, without one, at the first event. It refuses to run if the releases were made by another version of the
    engine, or if events since the snapshot are gone.
    """
    from shoal.streams.cli import is_debugging
    from shoal.streams.settings import load_settings
    from shoal.streams.worker.rebuild import run_rebuild

    settings = load_settings(required=["policy", "key"], policy=None if policy is None else str(policy))
    return run_rebuild(settings, snapshot, debug=is_debugging(ctx))
