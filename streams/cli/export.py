"""`shoal export`: the releases of a folder as tables for other tools."""

from pathlib import Path

import click


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--to", type=click.Choice(["csv", "parquet", "duckdb"]), required=True, help="What to write.")
@click.option(
    "--out",
    "target",
    metavar="PATH",
    type=click.Path(path_type=Path),
    required=True,
    help="The folder of CSV or Parquet files, or the DuckDB file, to make.",
)
@click.option("--release", "number", type=click.IntRange(1), metavar="N", help="Only this release [default: all].")
def command(out: Path, to: str, target: Path, number: int | None) -> None:
    """Write the releases in the folder OUT as tidy tables: cells, rows, values and releases.

    A DuckDB file also has two views: expected, how many of each value are to be expected in each cell of the newest
    release, and expected_in_all, the same for every release. The chain of the releases is checked first; with --release
    only that release is.
    """
    from shoal.streams.files.export import export

    count = export(out, to, target, number)
    click.echo(f"{target}: {count} release{'' if count == 1 else 's'} as {to}")
