"""Sinks that show manifests on the screen: line by line as they come, as JSON or for people, or a table at the end."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import click

from shoal.streams.kafka.release_reader import CommittedRelease


class Column(NamedTuple):
    """What is shown of a manifest."""

    heading: str
    field: str
    width: int
    is_in_table: bool = True


COLUMNS: Final = (
    Column("release", "release", 7),
    Column("as of", "published_at", 25),
    Column("people", "people", 9),
    Column("rows", "rows", 9, is_in_table=False),
    Column("groups", "groups", 8, is_in_table=False),
    Column("formed", "formed", 8),
    Column("carried", "carried", 8),
    Column("withheld", "withheld", 8),
    Column("suppressed", "suppressed", 10),
    Column("breach", "max_breach", 7),
    Column("bound", "bound", 6, is_in_table=False),
)


class LineSink:
    """One line a release, as it comes."""

    def __init__(self) -> None:
        self._is_begun = False

    async def put(self, release: CommittedRelease) -> None:
        if not self._is_begun:
            click.echo("  ".join(column.heading.rjust(column.width) for column in COLUMNS))
            self._is_begun = True
        texts = (_text(release.meaning, column).rjust(column.width) for column in COLUMNS)
        click.echo("  ".join(texts))

    async def close(self, *, is_whole: bool) -> None:
        """Every line is on the screen already."""


class JsonSink:
    """The manifest of each release, as it was published, on a line."""

    async def put(self, release: CommittedRelease) -> None:
        click.echo(release.manifest)

    async def close(self, *, is_whole: bool) -> None:
        """Every line is on the screen already."""


class TableSink:
    """One table of all releases, narrow enough for eighty columns of a terminal."""

    def __init__(self) -> None:
        self._manifests: list[Mapping[str, Any]] = []

    async def put(self, release: CommittedRelease) -> None:
        self._manifests.append(release.meaning)

    async def close(self, *, is_whole: bool) -> None:
        from rich.console import Console
        from rich.table import Table

        if not is_whole or not self._manifests:
            return
        shown = [column for column in COLUMNS if column.is_in_table]
        table = Table(box=None, header_style="bold", pad_edge=False)
        for column in shown:
            table.add_column(column.heading, justify="right", no_wrap=True)
        for manifest in self._manifests:
            table.add_row(*(_text(manifest, column)[:16].replace("T", " ") for column in shown))
        console = Console(highlight=False)
        console.print(table)
        bound = _text(self._manifests[-1], COLUMNS[-1])
        console.print(f"The chain of releases is unbroken. No breach may pass {bound}.", style="dim")


def _text(manifest: Mapping[str, Any], column: Column) -> str:
    value = manifest.get(column.field)
    return f"{value:.4f}" if isinstance(value, float) else "-" if value is None else str(value)
