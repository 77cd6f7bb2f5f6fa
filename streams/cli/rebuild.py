"""`shoal rebuild`: rebuilds Redis from the topics."""

from pathlib import Path

import click


@click.command()
@click.option("--policy", type=click.Path(path_type=Path), help="The table's policy [default: SHOAL_POLICY].")
@click.pass_context
def command(ctx: click.Context, policy: Path | None) -> int:
    """Rebuild Redis from the topics, and compare every release with what was published.

    Use it after Redis has lost its data or was restored from an old copy. It refuses to run if the releases were made
    by another version of the engine, or if the beginning of a topic is gone.
    """
    from shoal.streams.cli import is_debugging
    from shoal.streams.settings import load_settings
    from shoal.streams.worker.rebuild import run_rebuild

    settings = load_settings(required=["policy", "key"], policy=None if policy is None else str(policy))
    return run_rebuild(settings, debug=is_debugging(ctx))
