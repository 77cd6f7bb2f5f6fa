"""`shoal replay`: turns a file of events into a folder of releases, without a broker."""

import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.streams.cli.event_format import choice_of, format_options
from shoal.streams.cli.secret import read_secret, secret_options
from shoal.streams.cli.terminal import Bar, bar, counted, json_option, note

if TYPE_CHECKING:
    from shoal.streams.files.replay import Outcome


@click.command()
@click.argument("policy", type=click.Path(path_type=Path))
@click.argument("events", type=click.Path(allow_dash=True), nargs=-1, required=True)
@format_options("EVENTS")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder for the releases; everything in it is public."
)
@click.option(
    "--rejects",
    type=click.Path(path_type=Path),
    help="File that says which events had no effect, and why; not for publication [default: beside OUT, "
    "OUT.rejects.jsonl].",
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
    events: tuple[str, ...],
    out: Path,
    rejects: Path | None,
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
    """Turn files of events, or a table with a row per person and period, into a folder of releases.

    POLICY is a table's policy file. EVENTS has one JSON object per line, or is CSV with a header; `-` reads standard
    input. A line {"op": "release"} makes a release, and so does the policy's `every_events`; the end of the file makes
    none. Several files are read one after the other.

    If the mapping (--map) names a period, EVENTS is a panel: each period is a state of the table, and a release follows
    it. docs/mapping.md says how to write one; `shoal policy init` writes the first for you.

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
    job = Job(first, events, out, audit, state, secret, choice, later, jobs, rejects)
    with bar("replaying", in_bytes=True) as shown:
        outcome = replay(job, _Shown(shown))
    if as_json:
        figures = {field.name: getattr(outcome, field.name) for field in fields(outcome)}
        click.echo(json.dumps({**figures, "rejects": outcome.rejects.as_json()}))
    elif sys.stdout.isatty():
        _show_table(outcome)
    else:
        click.echo(_line(outcome))
    if outcome.rejected:
        note(f"{counted(outcome.rejected, 'event')} had no effect; {job.rejects_path} has each one:")
        for sentence in outcome.rejects.sentences():
            note(f"  {sentence}")
    if outcome.left_out:
        note(f"{counted(outcome.left_out, 'row')} of people without a value: left out, as the mapping says.")
    if outcome.rejected and not outcome.accepted and not outcome.is_anybody_there:
        raise InputError(
            f"nothing could be released: no event of {' '.join(events)} had an effect, and {job.rejects_path} says why"
        )
    if outcome.waiting:
        note(
            f"{counted(outcome.waiting, 'accepted event')} from line {outcome.resume_line:,} on came after the last "
            f"release and are not released yet; {_how(events, event_format)} releases them."
        )


def _how(events: tuple[str, ...], event_format: str | None) -> str:
    """What makes a release at the end of these files."""
    if event_format == "csv" or events[-1].lower().endswith(".csv"):
        return "a last row whose op is release, or a period in the mapping,"
    return 'a line {"op": "release"}'


class _Shown:
    """Shows a replay's progress on a bar."""

    def __init__(self, shown: Bar) -> None:
        self._bar = shown
        self.note, self.begin, self.read = shown.note, shown.begin, shown.advance

    def released(self, number: int) -> None:
        self._bar.say(f"release {number}")


def _line(outcome: "Outcome") -> str:
    """The whole run in one line, for a pipe."""
    text = (
        f"{counted(outcome.releases, 'release')}, {counted(outcome.accepted, 'event')} accepted, "
        f"{outcome.rejected:,} rejected"
    )
    if outcome.manifest is None:
        return text
    last = outcome.manifest
    return (
        f"{text}; release {last['release']}: {counted(last['people'], 'person')} in "
        f"{counted(last['groups'], 'group')}, "
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
