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
@click.argument("what", default="policy")
def schema(what: str) -> None:
    """Print the JSON Schema of WHAT goes in or comes out."""
    from core.schema import SCHEMAS

    if what not in SCHEMAS:
        raise click.UsageError(f"there is no schema {what}; there are {', '.join(SCHEMAS)}.")
    click.echo(json.dumps(SCHEMAS[what](), indent=2, ensure_ascii=False))
