"""`shoal doctor`: what is reachable, which rights are missing, which versions run, one line each."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.streams.cli.terminal import json_option, quiet_clients

if TYPE_CHECKING:
    from shoal.streams.worker.doctor import Finding


@click.command()
@click.option("--policy", type=click.Path(path_type=Path), help="The table's policy [default: SHOAL_POLICY].")
@json_option
def command(policy: Path | None, as_json: bool) -> int:
    """Check everything that a worker needs, and change nothing.

    One line for each check: versions, settings, policy, Kafka, rights, topics, Redis, durability, and whether Redis and
    the releases topic agree. The exit code is 0 if a worker could start, else that of the first failure.
    """
    quiet_clients()
    return asyncio.run(_show(policy, as_json))


async def _show(policy: Path | None, as_json: bool) -> int:
    code = 0
    async for finding in _findings(policy):
        code = code or finding.code
        if as_json:
            click.echo(json.dumps({"what": finding.what, "verdict": finding.verdict, "sentence": finding.sentence}))
        else:
            click.echo(f"{finding.verdict:<8} {finding.what:<13} {finding.sentence}")
    return code


async def _findings(policy: Path | None) -> "AsyncIterator[Finding]":
    from shoal.streams.errors import StreamsError
    from shoal.streams.files.policy_yaml import load_policy
    from shoal.streams.settings import load_settings
    from shoal.streams.worker.doctor import FAILED, OK, WARNING, Finding, examine, versions

    yield versions()
    what = "settings"
    try:
        settings = load_settings(required=["policy"], policy=None if policy is None else str(policy))
        yield Finding(what, OK, "all can be read")
        if settings.key is None:
            yield Finding(what, WARNING, "SHOAL_KEY is not set, and a worker does not start without it")
        what = "policy"
        rules = load_policy(settings.policy_path)
        yield Finding(what, OK, f"table {rules.table}, values are {rules.values}")
    except StreamsError as error:
        for line in str(error).splitlines():
            if not line.endswith(":"):  # what follows are the mistakes
                yield Finding(what, FAILED, line.strip(), error.exit_code)
        return
    async for finding in examine(settings, rules):
        yield finding
