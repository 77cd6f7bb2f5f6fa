"""`shoal export`: the releases of a folder or of the topic as tables for other tools."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.streams.cli.terminal import bar, json_option, quiet_clients

if TYPE_CHECKING:
    from shoal.core.policy.policy import Policy
    from shoal.core.published.manifest import PublishedRelease


@click.command()
@click.argument("out", type=click.Path(path_type=Path), required=False)
@click.option(
    "--to", type=click.Choice(["csv", "parquet", "duckdb", "postgres"]), required=True, help="Format to write."
)
@click.option(
    "--out",
    "target",
    metavar="PATH",
    required=True,
    help="Where to write: a new folder (CSV, Parquet), a new file (DuckDB), or the address of a PostgreSQL database.",
)
@click.option("--release", "number", type=click.IntRange(1), metavar="N", help="Only this release [default: all].")
@click.option("--schema", metavar="NAME", help="PostgreSQL: the schema to write to [default: the table's name].")
@click.option(
    "--policy",
    type=click.Path(path_type=Path),
    help="The policy, for estimates by the model [default without OUT: SHOAL_POLICY].",
)
@click.option("--kafka", metavar="HOST:PORT", help="Without OUT: the broker [default: SHOAL_KAFKA].")
@json_option
def command(
    out: Path | None,
    to: str,
    target: str,
    number: int | None,
    schema: str | None,
    policy: Path | None,
    kafka: str | None,
    as_json: bool,
) -> None:
    """Write the releases in the folder OUT, or without OUT those on the topic, as tidy tables.

    The tables are cells, rows, values and releases, and with a policy estimates: how many of each value to expect in
    each cell, and in all of them, with a range that is right nine times in ten. DuckDB and PostgreSQL also have views:
    expected, the same for the newest release, with the lower and upper end of the truth; expected_in_all, for every
    release; by_value, by value alone; changes, from each release to the next, with both ends. The chain of the releases
    is checked; with --release only that release is.

    An address of PostgreSQL is like postgresql://user@host:5432/database. Leave the password to PGPASSWORD or
    ~/.pgpass: others can see a command's arguments.
    """
    from shoal.streams.files.export import Job, export

    count, releases, rules = _releases(out, number, policy, kafka)
    with bar("exporting") as watcher:
        watcher.begin(count)
        outcome = export(Job(releases, to, target, schema, out, rules), watcher)
    if as_json:
        click.echo(json.dumps({"to": to, "place": outcome.place, "releases": outcome.releases}))
    else:
        click.echo(f"{outcome.place}: {outcome.releases} release{'' if outcome.releases == 1 else 's'} as {to}")


def _releases(
    out: Path | None, number: int | None, policy: Path | None, kafka: str | None
) -> "tuple[int, Iterator[PublishedRelease], Policy | None]":
    """How many releases there are to write, the releases, of the folder or of the topic, and their policy, if known.

    Raises StreamsError.
    """
    from shoal.streams.files.policy_yaml import load_policy

    if out is not None:
        from shoal.streams.files.export import folder_releases

        if kafka is not None:
            raise click.UsageError("give either OUT, a folder, or --kafka, where a topic is")
        rules = None if policy is None else load_policy(policy)
        return *folder_releases(out, number), rules
    from shoal.streams.errors import InputError
    from shoal.streams.files.topic_releases import last_number, topic_release, topic_releases
    from shoal.streams.settings import load_settings

    quiet_clients()
    settings = load_settings(required=["policy"], policy=None if policy is None else str(policy), kafka=kafka)
    rules = load_policy(settings.policy_path)
    if number is not None:
        found = topic_release(settings, rules.table, number)
        if found is None:
            raise InputError(f"the topic of table {rules.table} has no release {number}.")
        return 1, iter([found]), rules
    count = last_number(settings, rules.table)
    if count == 0:
        raise InputError(f"nothing of table {rules.table} is published yet.")
    return count, topic_releases(settings, rules.table), rules
