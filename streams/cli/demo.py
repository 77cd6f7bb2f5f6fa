"""`shoal demo`: shows the whole pipeline and its results to a person who sees Shoal for the first time."""

import json
import secrets
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
SHOWN_CELLS = 12
TUTORIALS = {
    "docs/tutorials/table.md": "you have a CSV file, perhaps with a row per person and year",
    "docs/tutorials/data-engineer.md": "you have a database, and its changes are to become events",
    "docs/tutorials/analyst.md": "you have a folder of releases, and questions",
    "docs/tutorials/privacy-officer.md": "you must sign off that a table may be published",
}


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
@click.option(
    "--random-key", is_flag=True, help="Draw the table's key [default: a public one, so that the figures are the same]."
)
def command(out: Path, people: int, nights: int, seed: int, random_key: bool) -> None:
    """Watch the whole pipeline on a made-up clinic; no services are needed.

    The broker and Redis are embedded and forget everything at the end: this is for trying things out, not for data.
    """
    from rich.console import Console

    from shoal.streams.demo.clinic import Clinic
    from shoal.streams.demo.demo import PUBLIC_KEY, run_demo

    quiet_clients()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no process it started outlives it
    console = Console(highlight=False, width=None if Console().is_terminal else WIDTH)
    console.print(
        "[bold]Shoal[/bold] publishes a changing table about people, release after release, and limits what all"
    )
    console.print("releases together tell about anyone. Here it does so for a made-up clinic.\n")
    key = secrets.token_urlsafe(16) if random_key else PUBLIC_KEY
    story = run_demo(out, Clinic(people, nights, seed), _Narrator(console), key)
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
    console.print("Each night's release has one row for every diagnosis of every patient.\n")
    table = Table(box=None, header_style="bold", pad_edge=False)
    headings = ("release", "night", "people", "rows", "groups", "carried", "withheld", "*", "waiting", "largest breach")
    for heading in headings:
        table.add_column(heading, justify="right")
    for one in story.manifests:
        counts = (one[name] for name in ("people", "rows", "groups", "carried", "withheld", "suppressed"))
        breach = f"{one['max_breach']:.2f} of {one['bound']:.2f}"
        texts = [f"{count:,}" for count in (*counts, one["waiting"])]
        table.add_row(str(one["release"]), str(one["published_at"])[:10], *texts, breach)
    console.print(table)
    console.print(
        "\nA group is carried if nobody left it or came back. Withheld people are late, not lost. A * is a diagnosis "
        "that is not shown; of these, some wait until enough new ones have come.\n"
        "The largest breach is the highest probability with which anyone can link one person to one protected "
        "diagnosis, from all releases so far together. It never passes the bound, however many releases there are."
    )


def _show_group(console: "Console", story: "Story") -> None:
    """Shows one published group: the rows on the left, the values on the right, and no link between the two."""
    from rich.columns import Columns
    from rich.table import Table

    from shoal.streams.files.release_folder import read_regions, row_count

    last, group = story.releases[-1], _typical_group(story)
    if group is None:
        return
    names = [attribute.name for attribute in story.policy.attributes]
    rows = Table("rows", *names, box=None, header_style="bold", pad_edge=False)
    regions = read_regions(last.cells)
    cells = list(group["cells"].items())
    for cell, shown in cells[:SHOWN_CELLS]:
        rows.add_row(str(row_count(shown)), *_texts(regions[cell], names))
    if len(cells) > SHOWN_CELLS:
        rows.add_row(str(sum(row_count(shown) for _, shown in cells[SHOWN_CELLS:])), "… elsewhere")
    values = Table("count", story.policy.sensitive.name, box=None, header_style="bold", pad_edge=False)
    for value, count in group["sensitive"].items():
        values.add_row(str(count), value)
    total = sum(map(row_count, group["cells"].values()))
    console.print(
        f"\n[bold]What is published[/bold]  (group {group['group']} of release {last.number}: {total} rows)\n"
    )
    console.print(Columns([rows, values], padding=(0, 6)))
    console.print(
        f"\nThe rows of the group are on the left, its values on the right. Each row has one of these "
        f"{len(group['sensitive'])} values, and nothing here says which: they are shown equally often. The same "
        "diagnosis of the same patient is shown among the same values in every release, so comparing releases tells "
        "nothing more. What a reader knows besides, such as that men have no miscarriages, is outside the promise. "
        "Beside such groups there are open values, shown as they are, and groups of *."
    )


def _typical_group(story: "Story") -> dict[str, Any] | None:
    """A group of the last release that shows a signature: of about average size, carried over if possible."""
    from shoal.streams.files.release_folder import row_count

    listed: list[dict[str, Any]] = [json.loads(record) for record in story.releases[-1].groups]
    groups = [group for group in listed if len(group["sensitive"]) >= story.policy.signature]
    sizes = {group["group"]: sum(map(row_count, group["cells"].values())) for group in groups}
    newest, average = story.releases[-1].number, sum(sizes.values()) / max(1, len(groups))

    def oddness(group: dict[str, Any]) -> tuple[bool, bool, float]:
        is_long = not 3 <= len(group["cells"]) <= SHOWN_CELLS
        return group["changed"] == newest, is_long, abs(sizes[group["group"]] - average)

    return min(groups, key=oddness, default=None)


def _texts(region: dict[str, Any], names: list[str]) -> list[str]:
    from shoal.streams.files.release_folder import region_text

    return [region_text(region[name]).replace("|", ", ") for name in names]


def _show_attack(console: "Console", story: "Story") -> None:
    from rich.table import Table

    from shoal.streams.demo.attack import STAY

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
    for level, count, right in (("0.90", "sure", "sure_right"), (f"{bound:.2f}", "over", "over_right")):
        claims = [(getattr(one.claims, count), getattr(one.claims, right), one.claims.people) for one in found]
        named = [f"{made:,} of {people:,}" for made, _, people in claims]
        table.add_row(f"people with one diagnosis named at over {level}", *named)
        hits = [_bad(f"{hit:,}", hit > made * bound) for made, hit, _ in claims]
        table.add_row(f"    and it is the right one; lasting: at most {bound:.0%}", *hits)
    lasted, insider = story.shoal["lasting"].lasted, story.audit.private and story.audit.private.attacks.played.insider
    more = []
    if lasted is not None:
        more.append(
            ("right claims of somebody who knows how long each lasts", f"{lasted.over_right:,} of {lasted.over:,}")
        )
    if insider:
        more.append((f"another patient may infer with over {bound:.2f}", f"{insider.over:,} of {insider.people:,}"))
    for what, text in more:
        table.add_row(f"[dim]not promised: {what}[/dim]", *(f"[dim]{cell}[/dim]" for cell in ("–", "–", text)))
    console.print(table)
    console.print(
        f"\nThe attacker knows who is in which group and believes that {STAY:.0%} of all diagnoses stay from night to "
        f"night. The publisher on the left anonymizes each release well by itself: a class never has fewer than {k} "
        f"people, and no diagnosis belongs to more than {bound:.0%} of a class. But its releases can be compared. "
        "Redrawn and lasting are Shoal's two models of values: redrawn is for values that do not stay, and promises "
        "nothing about this attack.\n"
        f"The releases above are {story.policy.values}, and the auditor found every promise about them kept. The last "
        "lines are things that Shoal does not promise. How long a diagnosis lasts may tell what it is. And a patient "
        "can subtract their own diagnosis from their group: that leaves one in three for a patient with one diagnosis "
        "there, and two in three for a patient with two. README.md lists them all."
    )


def _bad(text: str, count: int) -> str:
    return f"[red]{text}[/red]" if count else f"[green]{text}[/green]"


def _show_files(console: "Console", story: "Story") -> None:
    console.print("\n[bold]Where to look[/bold]\n")
    folder = story.folder
    for place, what in (
        (folder / "releases", "what is published: rows.csv and values.csv open in a spreadsheet"),
        (folder / "clinic", "what went in: policy.yaml, its hierarchies, events.jsonl"),
        (folder / "replay.rejects.jsonl", "which events were rejected, and why"),
        (folder / "private", "who was published where: for audits, never to be published"),
        (folder / "other-model", "the same events under the other model of values, for comparison"),
        (folder / "worker.log", "the log of the worker"),
    ):
        console.print(f"  {place!s:<34} {what}", soft_wrap=True)
    console.print("\n[bold]Where to go on[/bold]\n")
    for page, reader in TUTORIALS.items():
        console.print(f"  {page:<34} {reader}", soft_wrap=True)
    console.print(
        "\nThe demo has checked that a replay of the same events makes the service's releases, byte for byte. "
        "Its broker was embedded, for trying things out only: README.md says how to run on Kafka and Redis."
    )
