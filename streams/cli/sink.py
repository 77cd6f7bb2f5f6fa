"""`shoal sink`: keeps the newest release as tables in PostgreSQL or as Parquet files."""

import asyncio
import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.streams.cli.terminal import json_option, note, quiet_clients, web_port_option

if TYPE_CHECKING:
    from shoal.streams.settings import Settings
    from shoal.streams.sink.newest import NewestSink

_POSTGRES = ("postgresql://", "postgres://")


@click.command()
@click.argument("target")
@click.option("--once", is_flag=True, help="Stop after the newest release instead of waiting for later ones.")
@click.option("--schema", metavar="NAME", help="PostgreSQL: the schema to write to [default: the table's name].")
@click.option("--policy", type=click.Path(path_type=Path), help="The table's policy [default: SHOAL_POLICY].")
@click.option("--kafka", metavar="HOST:PORT", help="Broker [default: SHOAL_KAFKA].")
@web_port_option
@json_option
def command(
    target: str,
    once: bool,
    schema: str | None,
    policy: Path | None,
    kafka: str | None,
    web_port: int | None,
    as_json: bool,
) -> None:
    """Keep the newest release in TARGET, and follow the releases topic.

    TARGET is postgresql://user@host:5432/database, or a folder for Parquet files, where `latest` is the newest. The
    tables are those of `shoal export`; `releases` has a line for every release. Kill it and start it again at any time:
    each release is written once, and readers see one whole release. Leave a password to PGPASSWORD or ~/.pgpass.
    """
    from shoal.streams.files.policy_yaml import load_policy
    from shoal.streams.settings import load_settings

    quiet_clients()
    settings = load_settings(required=["policy"], policy=None if policy is None else str(policy), kafka=kafka)
    table = load_policy(settings.policy_path).table
    with closing(_open(target, schema, table)) as sink:
        count = asyncio.run(_follow(settings, table, sink, web_port, once=once, as_json=as_json))
    if count == 0 and not as_json:
        note("there is no newer release.")


def _open(target: str, schema: str | None, table: str) -> "NewestSink":
    if target.startswith(_POSTGRES):
        from shoal.streams.sink.postgres_newest import PostgresNewest

        return PostgresNewest(target, schema or table)
    if "://" in target:
        raise click.UsageError("TARGET is a folder, or an address that begins with postgresql://")
    if schema is not None:
        raise click.UsageError("--schema is for PostgreSQL only")
    from shoal.streams.sink.parquet_newest import ParquetNewest

    return ParquetNewest(Path(target))


async def _follow(
    settings: "Settings", table: str, sink: "NewestSink", web_port: int | None, *, once: bool, as_json: bool
) -> int:
    from shoal.streams.sink.newest import follow_newest
    from shoal.streams.vitals import SinkVitals, serving

    count, vitals = 0, SinkVitals(table)
    async with serving(vitals, settings, web_port):
        async for release in follow_newest(settings, table, sink, vitals, once=once):
            count += 1
            people = release.meaning["people"]
            figures = {"table": table, "release": release.number, "people": people, "rows": release.meaning["rows"]}
            click.echo(json.dumps(figures) if as_json else f"release {release.number} of {table}: {people} people")
    return count
