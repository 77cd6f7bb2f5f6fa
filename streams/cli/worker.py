"""`shoal worker`: runs the service."""

from pathlib import Path

import click


@click.command()
@click.option("--policy", type=click.Path(path_type=Path), help="The table's policy [default: SHOAL_POLICY].")
@click.pass_context
def command(ctx: click.Context, policy: Path | None) -> int:
    """Run the service: events from Kafka in, releases out.

    It needs Kafka, Redis, a policy and the secret SHOAL_KEY, and stops cleanly on Ctrl-C or SIGTERM.
    """
    from shoal.streams.cli import is_debugging
    from shoal.streams.settings import load_settings
    from shoal.streams.worker.app import run_worker

    settings = load_settings(required=["policy", "key"], policy=None if policy is None else str(policy))
    return run_worker(settings, debug=is_debugging(ctx))
