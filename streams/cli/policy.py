"""`shoal policy check` and `shoal policy schema`."""

import json
from pathlib import Path

import click

from streams.cli.terminal import note


@click.group()
def command() -> None:
    """Check a policy, or print the JSON Schemas."""


@command.command()
@click.argument("policy", type=click.Path(path_type=Path))
@click.option(
    "--sample", type=click.Path(allow_dash=True), help="Events to look at: warns of values that are too frequent."
)
def check(policy: Path, sample: str | None) -> None:
    """Check a policy: list every mistake in it, or say what it promises."""
    from streams.policycheck import describe, warnings, warnings_from
    from streams.policyfile import load_policy

    rules = load_policy(policy)
    for line in describe(rules):
        click.echo(line)
    for warning in (*warnings(rules), *(warnings_from(rules, sample) if sample else ())):
        note(f"warning: {warning}")


@command.command()
@click.argument("what", type=click.Choice(["policy", "event", "release"]), default="policy")
def schema(what: str) -> None:
    """Print the JSON Schema of WHAT: policy (the default), event, or release (one record of it)."""
    from core.schema import event_schema, policy_schema, release_schema

    make = {"policy": policy_schema, "event": event_schema, "release": release_schema}[what]
    click.echo(json.dumps(make(), indent=2, ensure_ascii=False))
