"""`shoal replay`: turns a file of events into a folder of releases, without a broker."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.streams.cli.event_format import choice_of, format_options
from shoal.streams.cli.secret import read_secret, secret_options
from shoal.streams.cli.terminal import Bar, bar, json_option, note

if TYPE_CHECKING:
    from shoal.streams.files.replay import Outcome


@click.command()
@click.argument("policy", type=click.Path(path_type=Path))
@click.argument("events", type=click.Path(allow_dash=True))
@format_options("EVENTS")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder for the releases; everything in it is public."
)
@click.option("--audit", type=click.Path(path_type=Path), help="Private folder for who was published where.")
@click.option("--state", type=click.Path(path_type=Path), help="Private file to resume from and save to.")
@click.option(
    "--change",
    "changes",
    multiple=True,
    metavar="RELEASE:POLICY",
    help="Switch to this policy with this release.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Processes that plan the shards of a table side by side (scale.shards); each has one shard in memory.",
)
@secret_options("from which all randomness comes [default: SHOAL_KEY, else the state's or a new one]")
@json_option
def command(
    policy: Path,
    events: str,
    out: Path,
    audit: Path | None,
    state: Path | None,
    seed: str | None,
    seed_file: Path | None,
    event_format: str | None,
    mapping: Path | None,
    changes: tuple[str, ...],
    jobs: int,
    as_json: bool,
) -> None:
    """Turn a file of events into a folder of releases, without a broker.

    POLICY is a table's policy file. EVENTS has one JSON object per line, or is CSV with a header; `-` reads standard
    input. A line {"op": "release"} makes a release, and so does the policy's `every_events`; the end of the file makes
    none.

    With --state a later run continues where this one stopped: EVENTS may then be the same file with more lines, or have
    only the new lines. Events after the last release are not in the state and are read again.

    POLICY is the policy that the table began with, if --change names others. With --state it is the current one.
    """
    from shoal.streams.errors import InputError
    from shoal.streams.files.policy_change import read_changes
    from shoal.streams.files.policy_yaml import load_policy
    from shoal.streams.files.replay import Job, replay

    secret, first = read_secret(seed, seed_file), load_policy(policy)
    choice, later = choice_of(event_format, mapping), read_changes(first, changes)
    job = Job(first, events, out, audit, state, secret, choice, later, jobs)
    with bar("replaying", in_bytes=True) as shown:
        outcome = replay(job, _Shown(shown))
    if as_json:
        click.echo(json.dumps(asdict(outcome)))
    elif sys.stdout.isatty():
        _show_table(outcome)
    else:
        click.echo(_line(outcome))
    if outcome.rejected and not outcome.accepted and not outcome.releases:
        raise InputError(
            f"nothing in {events} could be used: all {outcome.rejected:,} events were rejected, and "
            f"{out / 'rejects.jsonl'} says why"
        )
    if outcome.rejected:
        note(f"{outcome.rejected:,} events were rejected; {out / 'rejects.jsonl'} says why.")
    if outcome.waiting:
        note(
            f"{outcome.waiting:,} accepted events from line {outcome.resume_line:,} on came after the last release "
            "and are not released yet."
        )


class _Shown:
    """Shows a replay's progress on a bar."""

    def __init__(self, shown: Bar) -> None:
        self._bar = shown
        self.note, self.begin, self.read = shown.note, shown.begin, shown.advance

    def released(self, number: int) -> None:
        self._bar.say(f"release {number}")


def _line(outcome: "Outcome") -> str:
    """The whole run in one line, for a pipe."""
    text = f"{outcome.releases} releases, {outcome.accepted} events accepted, {outcome.rejected} rejected"
    if outcome.manifest is None:
        return text
    last = outcome.manifest
    return (
        f"{text}; release {last['release']}: {last['people']} people in {last['groups']} groups, "
        f"{last['withheld']} withheld, {last['suppressed']} suppressed, "
        f"max_breach {last['max_breach']:.4f} of {last['bound']:.4f}"
    )


def _show_table(outcome: "Outcome") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None)
    table.add_column(style="dim")
    table.add_column(justify="right")
    table.add_row("releases", f"{outcome.releases:,}")
    table.add_row("events accepted", f"{outcome.accepted:,}")
    table.add_row("events rejected", f"{outcome.rejected:,}")
    if outcome.manifest is not None:
        last = outcome.manifest
        table.add_row(f"people in release {last['release']}", f"{last['people']:,}")
        table.add_row("groups", f"{last['groups']:,}")
        table.add_row("withheld until later", f"{last['withheld']:,}")
        table.add_row("values suppressed", f"{last['suppressed']:,}")
        table.add_row("largest breach so far", f"{last['max_breach']:.4f} of {last['bound']:.4f}")
    Console().print(table)
