"""`shoal releases`: read the releases topic, show it or hand it to a sink, and check that it is unbroken."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.streams.cli.terminal import json_option, note, quiet_clients

if TYPE_CHECKING:
    from shoal.core.policy.policy import Policy
    from shoal.streams.settings import Settings


@click.command()
@click.option("--policy", type=click.Path(path_type=Path), help="The table's policy [default: SHOAL_POLICY].")
@click.option("--follow", is_flag=True, help="Keep waiting for new releases.")
@click.option(
    "--out", metavar="DIR", help="Write the releases to this folder, as `shoal replay` does, or to scheme://target."
)
@click.option("--kafka", metavar="HOST:PORT", help="Broker [default: SHOAL_KAFKA].")
@json_option
def command(policy: Path | None, follow: bool, out: str | None, kafka: str | None, as_json: bool) -> None:
    """Read the releases topic, and check that the chain of releases is unbroken.

    With --json each release is a line: its manifest.
    """
    from shoal.streams.files.policy_yaml import load_policy
    from shoal.streams.settings import load_settings

    quiet_clients()
    settings = load_settings(required=["policy"], policy=None if policy is None else str(policy), kafka=kafka)
    count = asyncio.run(_read(settings, load_policy(settings.policy_path), follow, out, as_json))
    if count == 0:
        note("there are no releases yet.")
    elif out is not None:
        note(f"{count:,} releases are in {out}.")


async def _read(settings: "Settings", policy: "Policy", follow: bool, out: str | None, as_json: bool) -> int:
    from shoal.streams.kafka.release_reader import open_releases
    from shoal.streams.sink.release_sink import ReleaseSink, deliver
    from shoal.streams.sink.screen import JsonSink, LineSink, TableSink
    from shoal.streams.sink.sinks import open_sink

    sinks: list[ReleaseSink] = [] if out is None else [open_sink(out, policy)]
    sinks.append(JsonSink() if as_json else TableSink() if sys.stdout.isatty() and not follow else LineSink())
    async with open_releases(settings.kafka_servers, policy.table, settings.connect_s) as reader:
        return await deliver(reader, sinks, follow=follow)
