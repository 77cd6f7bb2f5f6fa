"""`shoal skip`: leaves one record out of the table."""

import asyncio
from pathlib import Path

import click

from shoal.streams.cli.terminal import quiet_clients


@click.command()
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@click.argument("offset", type=click.IntRange(min=0))
@click.option("--policy", type=click.Path(path_type=Path), help="The table's policy [default: SHOAL_POLICY].")
@click.option("--kafka", metavar="HOST:PORT", help="Broker [default: SHOAL_KAFKA].")
def command(topic: str, partition: int, offset: int, policy: Path | None, kafka: str | None) -> None:
    """Leave one record out of the table, as if it had been rejected.

    For a record that keeps releases from being made: `/ready` says so, and the log names the release. TOPIC is the
    table's events, external or triggers topic, by its full name or its last part. The record becomes a dead letter.
    A record that is already part of a release cannot be left out.
    """
    from shoal.core.events.fields import SKIPPABLE
    from shoal.streams.files.policy_yaml import load_policy
    from shoal.streams.files.produce import request_skip
    from shoal.streams.kafka.topics import Topics
    from shoal.streams.settings import load_settings

    quiet_clients()
    settings = load_settings(required=["policy"], policy=None if policy is None else str(policy), kafka=kafka)
    rules = load_policy(settings.policy_path)
    names = {getattr(Topics(rules.table), name): name for name in SKIPPABLE}
    name = names.get(topic, topic)
    if name not in SKIPPABLE:
        raise click.BadParameter(f"must be one of {', '.join(sorted(SKIPPABLE))}", param_hint="TOPIC")
    asyncio.run(request_skip(settings, rules, name, partition, offset))
    click.echo(f"asked to leave out offset {offset} of partition {partition} of {getattr(Topics(rules.table), name)}")
