"""`shoal release`: asks the running service for a release now."""

import asyncio
import json
from pathlib import Path

import click

from shoal.streams.cli.terminal import json_option, quiet_clients


@click.command()
@click.option("--policy", type=click.Path(path_type=Path), help="The table's policy [default: SHOAL_POLICY].")
@click.option("--at", metavar="TIME", help="Time that the release states, ISO 8601 [default: now].")
@click.option("--wait", is_flag=True, help="Wait until the release is published.")
@click.option("--wait-s", default=600.0, show_default=True, help="How many seconds to wait for it.")
@click.option("--kafka", metavar="HOST:PORT", help="Broker [default: SHOAL_KAFKA].")
@json_option
def command(policy: Path | None, at: str | None, wait: bool, wait_s: float, kafka: str | None, as_json: bool) -> None:
    """Ask the running service for a release of everything produced so far."""
    from shoal.core.events.event import wrong_time
    from shoal.streams.files.policy_yaml import load_policy
    from shoal.streams.files.produce import request_release
    from shoal.streams.settings import load_settings

    quiet_clients()
    if at is not None and wrong_time(at):
        raise click.BadParameter("must be a time in ISO 8601, like 2024-03-04T03:00:00Z", param_hint="--at")
    settings = load_settings(required=["policy"], policy=None if policy is None else str(policy), kafka=kafka)
    rules = load_policy(settings.policy_path)
    release = asyncio.run(request_release(settings, rules, at, wait_s if wait else None))
    if as_json:
        click.echo(json.dumps({"table": rules.table, "manifest": None if release is None else release.meaning}))
    elif release is None:
        click.echo(f"asked for a release of {rules.table}")
    else:
        click.echo(f"release {release.number} of {rules.table}: {release.meaning['people']} people")
