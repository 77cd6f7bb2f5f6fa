"""`shoal export`: the releases of a folder or of the topic as tables for other tools."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.streams.cli.terminal import bar, json_option, quiet_clients

if TYPE_CHECKING:
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
@click.option("--policy", type=click.Path(path_type=Path), help="Without OUT: the policy [default: SHOAL_POLICY].")
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

    The tables are cells, rows, values and releases. DuckDB and PostgreSQL also have views: expected, how many of
    each value to expect in each cell of the newest release, and the lower and upper end of the truth; expected_in_all,
    the same for every release; by_value, the same by value alone; changes, from each release to the next, with both
    ends. The chain of the releases is checked; with --release only that release is.

    An address of PostgreSQL is like postgresql://user@host:5432/database. Leave the password to PGPASSWORD or
    ~/.pgpass: others can see a command's arguments.
    """
    from shoal.streams.files.export import Job, export

    count, releases = _releases(out, number, policy, kafka)
    with bar("exporting") as watcher:
        watcher.begin(count)
        outcome = export(Job(releases, to, target, schema, out), watcher)
    if as_json:
        click.echo(json.dumps({"to": to, "place": outcome.place, "releases": outcome.releases}))
    else:
        click.echo(f"{outcome.place}: {outcome.releases} release{'' if outcome.releases == 1 else 's'} as {to}")


def _releases(
    out: Path | None, number: int | None, policy: Path | None, kafka: str | None
) -> "tuple[int, Iterator[PublishedRelease]]":
    """How many releases there are to write, and the releases: of the folder, or of the topic. Raises StreamsError."""
    if out is not None:
        from shoal.streams.files.export import folder_releases

        if policy is not None or kafka is not None:
            raise click.UsageError("give either OUT, a folder, or --policy and --kafka, which name a topic")
        return folder_releases(out, number)
    from shoal.streams.errors import InputError
    from shoal.streams.files.policy_yaml import load_policy
    from shoal.streams.files.topic_releases import last_number, topic_release, topic_releases
    from shoal.streams.settings import load_settings

    quiet_clients()
    settings = load_settings(required=["policy"], policy=None if policy is None else str(policy), kafka=kafka)
    table = load_policy(settings.policy_path).table
    if number is not None:
        found = topic_release(settings, table, number)
        if found is None:
            raise InputError(f"the topic of table {table} has no release {number}.")
        return 1, iter([found])
    count = last_number(settings, table)
    if count == 0:
        raise InputError(f"nothing of table {table} is published yet.")
    return count, topic_releases(settings, table)
