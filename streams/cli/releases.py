"""`shoal releases`: read the releases topic, show it or write it to a folder, and check that it is unbroken."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.streams.cli.terminal import note, quiet_clients

if TYPE_CHECKING:
    from shoal.core.policy.policy import Policy
    from shoal.streams.settings import Settings

# (heading, field of the manifest, width)
COLUMNS = (
    ("release", "release", 7),
    ("published at", "published_at", 25),
    ("rows", "rows", 9),
    ("groups", "groups", 8),
    ("formed", "formed", 8),
    ("carried", "carried", 8),
    ("withheld", "withheld", 8),
    ("suppressed", "suppressed", 10),
    ("breach", "max_breach", 7),
    ("bound", "bound", 6),
)


@click.command()
@click.option("--policy", type=click.Path(path_type=Path), help="The table's policy [default: SHOAL_POLICY].")
@click.option("--follow", is_flag=True, help="Go on waiting for new releases.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the releases to this folder, as `shoal replay` does."
)
@click.option("--kafka", metavar="HOST:PORT", help="Broker [default: SHOAL_KAFKA].")
def command(policy: Path | None, follow: bool, out: Path | None, kafka: str | None) -> None:
    """Read the releases topic, and check that the chain of releases is unbroken."""
    from shoal.streams.files.policy_yaml import load_policy
    from shoal.streams.settings import load_settings

    quiet_clients()
    settings = load_settings(required=["policy"], policy=None if policy is None else str(policy), kafka=kafka)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    count = asyncio.run(_read(settings, load_policy(settings.policy_path), follow, out))
    if count == 0:
        note("there are no releases yet.")
    elif out is not None:
        note(f"{count:,} releases are in {out}.")


async def _read(settings: "Settings", policy: "Policy", follow: bool, out: Path | None) -> int:
    from shoal.streams.files.release_folder import ReleaseFolder
    from shoal.streams.kafka.release_reader import open_releases

    folder = ReleaseFolder(out, [attribute.name for attribute in policy.attributes]) if out else None
    count, seen = 0, []
    as_table = sys.stdout.isatty() and not follow
    async with open_releases(settings.kafka_servers, policy.table, settings.connect_s) as reader:
        async for release in reader.releases(follow=follow):
            if folder is not None:
                folder.stage(release.number, release.records, release.manifest)
                folder.show(release.number)
            count += 1
            if as_table:
                seen.append(release.meaning)
                continue
            if count == 1:
                click.echo("  ".join(heading.rjust(width) for heading, _, width in COLUMNS))
            click.echo(
                "  ".join(text.rjust(width) for text, (_, _, width) in zip(_row(release.meaning), COLUMNS, strict=True))
            )
    if as_table and seen:
        _show(seen)
    return count


def _row(manifest: Mapping[str, Any]) -> list[str]:
    return [_text(manifest.get(field)) for _, field, _ in COLUMNS]


def _text(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else "-" if value is None else str(value)


def _show(manifests: list[Mapping[str, Any]]) -> None:
    """The same on a terminal, narrow enough for eighty columns."""
    from rich.console import Console
    from rich.table import Table

    shown = [column for column in COLUMNS if column[1] not in {"groups", "bound"}]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading, _, _ in shown:
        table.add_column(heading, justify="right", no_wrap=True)
    for manifest in manifests:
        texts = [_text(manifest.get(field)) for _, field, _ in shown]
        table.add_row(*(text[:16].replace("T", " ") for text in texts))
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"The chain of releases is unbroken. No breach may pass {_text(manifests[-1].get('bound'))}.", style="dim"
    )
