"""`shoal demo`: shows the whole pipeline and its results to a person who sees Shoal for the first time."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.streams.cli.terminal import Bar, bar, quiet_clients

if TYPE_CHECKING:
    from rich.console import Console

    from shoal.streams.demo.demo import Story

WIDTH = 110
SHOWN_VALUES = 12


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("shoal-demo"),
    show_default=True,
    help="Folder for everything the demo leaves behind.",
)
@click.option(
    "--people", type=click.IntRange(50, 5000), default=1700, show_default=True, help="Patients on the first night."
)
@click.option("--nights", type=click.IntRange(1, 30), default=8, show_default=True, help="Releases, one a night.")
@click.option("--seed", default=20433, show_default=True, help="Another number gives another clinic.")
def command(out: Path, people: int, nights: int, seed: int) -> None:
    """Watch the whole pipeline on a made-up clinic; no services are needed.

    The broker and Redis are embedded and forget everything at the end: this is for trying things out, not for data.
    """
    from rich.console import Console

    from shoal.streams.demo.clinic import Clinic
    from shoal.streams.demo.demo import run_demo

    quiet_clients()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no process it started outlives it
    console = Console(highlight=False, width=None if Console().is_terminal else WIDTH)
    console.print(
        "[bold]Shoal[/bold] publishes a changing table about people, release after release, and limits what all"
    )
    console.print("releases together tell about anyone. Here it does so for a made-up clinic.\n")
    story = run_demo(out, Clinic(people, nights, seed), _Narrator(console))
    _show_releases(console, story)
    _show_group(console, story)
    _show_attack(console, story)
    _show_files(console, story)


class _Narrator:
    """Prints the steps, and shows a bar while events are being sent."""

    def __init__(self, console: "Console") -> None:
        self._console = console

    def step(self, sentence: str) -> None:
        self._console.print(f"[green]•[/green] {sentence}")

    @contextmanager
    def sending(self, total: int) -> Iterator[Bar]:
        with bar("  sending") as shown:
            shown.begin(total)
            yield shown


def _show_releases(console: "Console", story: "Story") -> None:
    from rich.table import Table

    rejected = sum(story.dead_letters.values())
    reasons = ", ".join(f"{count} {reason}" for reason, count in story.dead_letters.most_common())
    console.print(f"\n[bold]What happened[/bold]  ({story.took_s:.0f} seconds)\n")
    console.print(f"{story.sent.events:,} events were sent; {rejected:,} were dead-lettered ({reasons}).")
    console.print(
        "A group whose people did not change is carried over as it was, so seeing it again tells nothing new.\n"
    )
    table = Table(box=None, header_style="bold", pad_edge=False)
    headings = ("release", "night", "people", "groups", "new", "carried", "withheld", "suppressed", "largest breach")
    for heading in headings:
        table.add_column(heading, justify="right")
    for one in story.manifests:
        counts = (one["people"], one["groups"], one["formed"], one["carried"], one["withheld"], one["suppressed"])
        breach = f"{one['max_breach']:.3f} of {one['bound']:.3f}"
        table.add_row(str(one["release"]), str(one["published_at"])[:10], *(f"{count:,}" for count in counts), breach)
    console.print(table)
    console.print(
        "\nThe largest breach is the highest probability with which anyone can link one person to one sensitive value, "
        "from all releases so far together. It grows as groups are formed anew, and never passes the bound."
    )


def _show_group(console: "Console", story: "Story") -> None:
    """Shows one published group: the rows on the left, the values on the right, and no link between the two."""
    from rich.columns import Columns
    from rich.table import Table

    from shoal.streams.files.release_folder import read_regions, row_count

    last = story.releases[-1]
    if not last.groups:
        return
    group = _typical_group(story)
    names = [attribute.name for attribute in story.policy.attributes]
    rows = Table("rows", *names, box=None, header_style="bold", pad_edge=False)
    regions = read_regions(last.cells)
    for cell, shown in group["cells"].items():
        rows.add_row(str(row_count(shown)), *_texts(regions[cell], names))
    values = Table("count", story.policy.sensitive.name, box=None, header_style="bold", pad_edge=False)
    listed = list(group["sensitive"].items())
    for value, count in listed[:SHOWN_VALUES]:
        values.add_row(str(count), value)
    if len(listed) > SHOWN_VALUES:
        values.add_row("", f"… and {len(listed) - SHOWN_VALUES} more")
    people = sum(map(row_count, group["cells"].values()))
    console.print(f"\n[bold]What is published[/bold]  (one group of release {last.number}: {people} people)\n")
    console.print(Columns([rows, values], padding=(0, 6)))
    console.print(
        "\nThe rows of the group are on the left, its values on the right. Nothing says which row has which value."
    )


def _typical_group(story: "Story") -> dict[str, Any]:
    """A group of the last release of about average size, carried over and small enough for a screen if possible."""
    from shoal.streams.files.release_folder import row_count

    groups: list[dict[str, Any]] = [json.loads(record) for record in story.releases[-1].groups]
    newest, average = story.releases[-1].number, story.manifests[-1]["rows"] / len(groups)

    def oddness(group: dict[str, Any]) -> tuple[bool, bool, float]:
        people = sum(map(row_count, group["cells"].values()))
        return group["formed"] == newest, not 3 <= len(group["cells"]) <= SHOWN_VALUES, abs(people - average)

    return min(groups, key=oddness)


def _texts(region: dict[str, Any], names: list[str]) -> list[str]:
    from shoal.streams.files.release_folder import region_text

    return [region_text(region[name]).replace("|", ", ") for name in names]


def _show_attack(console: "Console", story: "Story") -> None:
    from rich.table import Table

    k, bound = story.policy.k, 1 / story.policy.l
    columns = {"each release alone": story.naive}
    columns |= {f"Shoal, {model}": story.shoal[model] for model in ("redrawn", "lasting")}
    console.print("\n[bold]What an attacker learns who keeps all releases and compares them[/bold]\n")
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("")
    for title in columns:
        table.add_column(title, justify="right")
    found = list(columns.values())
    table.add_row(
        f"people whose row fits fewer than {k} people",
        *(_bad(f"{one.rows_below_k:,} of {one.present:,}", one.rows_below_k) for one in found),
    )
    table.add_row(
        f"people linked to a value with more than {bound:.2f}",
        *(_bad(f"{one.values_above_bound:,} of {one.ever:,}", one.values_above_bound) for one in found),
    )
    table.add_row(
        "the highest probability of a value of a person",
        *(_bad(f"{one.surest:.2f}", one.values_above_bound) for one in found),
    )
    table.add_row(
        "people claimed to have a value, as values stay",
        *(f"{one.claims.over:,} of {one.claims.people:,}" for one in found),
    )
    table.add_row(f"claims that are right; lasting: at most {bound:.0%}", *_right(story))
    console.print(table)
    console.print(
        f"\nThe other publisher anonymizes each release well by itself: a class never has fewer than {k} people, and "
        f"no value belongs to more than {bound:.0%} of a class. But an attacker can compare its releases.\n"
        f"Redrawn and lasting are Shoal's two models of values; the releases above are {story.policy.values}. Somebody "
        "who believes that values mostly stay claims to know some of them. Only a lasting table promises that no more "
        f"than {bound:.0%} of such claims are right, but for chance."
    )


def _right(story: "Story") -> list[str]:
    """How many of the claims are right: promised in a lasting table, and in a redrawn one not."""
    from shoal.core.audit.reading.truth import exact

    bound = 1 / exact(story.policy.l)
    texts = []
    for name, findings in (("naive", story.naive), *((model, story.shoal[model]) for model in ("redrawn", "lasting"))):
        text = f"{findings.claims.over_right:,} of {findings.claims.over:,}"
        is_bad = not findings.claims.is_within(bound)
        texts.append(f"[dim]{text}[/dim]" if name == "redrawn" else _bad(text, is_bad))
    return texts


def _bad(text: str, count: int) -> str:
    return f"[red]{text}[/red]" if count else f"[green]{text}[/green]"


def _show_files(console: "Console", story: "Story") -> None:
    console.print("\n[bold]Where to look[/bold]\n")
    folder = story.folder
    for place, what in (
        (folder / "releases", "what is published: rows.csv and values.csv open in a spreadsheet"),
        (folder / "clinic", "what went in: policy.yaml, its hierarchies, events.jsonl"),
        (folder / "replay" / "rejects.jsonl", "which events were rejected, and why"),
        (folder / "private", "who was published where: for audits, never to be published"),
        (folder / "other-model", "the same events under the other model of values, for comparison"),
        (folder / "worker.log", "the log of the worker"),
    ):
        console.print(f"  {place!s:<32} {what}", soft_wrap=True)
    console.print(
        "\nThe demo has checked that a replay of the same events makes the service's releases, byte for byte. "
        "Its broker was embedded, for trying things out only: README.md says how to run on Kafka and Redis."
    )
