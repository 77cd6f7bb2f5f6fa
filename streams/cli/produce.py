"""`shoal produce`: sends a file of events to the events topic."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.streams.cli.event_format import choice_of, format_options
from shoal.streams.cli.terminal import bar, counted, json_option, note, quiet_clients
from shoal.streams.files.formats import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shoal.core.policy.policy import Policy
    from shoal.streams.files.formats.format import EventReader, Line
    from shoal.streams.settings import Settings


PUBLISHED_AS = " or ".join(known.what for known in PUBLISHED.values())


@click.command()
@click.argument("policy", type=click.Path(path_type=Path))
@click.argument("files", metavar="[FILE]...", type=click.Path(allow_dash=True), nargs=-1)
@format_options("FILE")
@click.option("--id", "id_column", metavar="COLUMN", help="Column of the person's id [default: id].")
@click.option(
    "--op",
    "op_column",
    metavar="COLUMN",
    help="Column of the operation [default: op if there is one; else insert].",
)
@click.option(
    "--attribute", "attributes", metavar="NAME=COLUMN", multiple=True, help="Column of an attribute; repeat for more."
)
@click.option("--sensitive", metavar="COLUMN", multiple=True, help="Column of a sensitive value; repeat for more.")
@click.option("--separator", metavar="TEXT", help="Text between several sensitive values in one field.")
@click.option("--delimiter", metavar="CHARACTER", help="Character between the fields of a line [default: ,].")
@click.option(
    "--register",
    is_flag=True,
    help="FILE lists people who exist: a row without an op registers a person, and needs no value.",
)
@click.option(
    "--external",
    type=click.Path(path_type=Path),
    help=f"Instead of FILE: what somebody else has published, as {PUBLISHED_AS}.",
)
@click.option("--publisher", metavar="NAME", help="With --external: the name of that publisher.")
@click.option(
    "--to",
    type=click.Path(allow_dash=True),
    help="With --external: write the events to this file, for `shoal replay`, instead of sending them.",
)
@click.option("--format", "wire", metavar="NAME", default="msgpack", show_default=True, help="How events are sent.")
@click.option(
    "--wait",
    is_flag=True,
    help="After each release line, wait until that release is published; at the end, say what was rejected.",
)
@click.option("--wait-s", default=600.0, show_default=True, help="How many seconds to wait for a release.")
@click.option("--kafka", metavar="HOST:PORT", help="Broker [default: SHOAL_KAFKA].")
@json_option
def command(
    policy: Path,
    files: tuple[str, ...],
    to: str | None,
    wire: str,
    wait: bool,
    wait_s: float,
    kafka: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Send files of events, or a table with a row per person and period, to the events topic.

    FILE has one JSON object per line, or is CSV with a header; `-` reads standard input. A line that is no event at all
    is reported, and not sent. {"op": "release"} asks for a release of every event before it.

    If the mapping (--map) names a period, FILE is a panel: what differs from period to period is sent, and a release is
    asked for after each. Periods up to the last release on the topic are not sent again.

    With --external and --publisher, the releases of another publisher go to the external topic: every later release of
    Shoal is safe to publish beside them.
    """
    from shoal.streams.files.policy_yaml import load_policy
    from shoal.streams.files.produce import produce
    from shoal.streams.intake.formats import by_name
    from shoal.streams.settings import load_settings

    quiet_clients()
    rules, input_format = load_policy(policy), by_name(wire)
    if (options["external"] is None) != (options["publisher"] is None) or bool(files) == bool(options["external"]):
        raise click.UsageError("give either FILE, or --external and --publisher")
    if to is not None:
        if files:
            raise click.UsageError("--to goes with --external")
        with _lines(rules, (), options) as (lines, _):
            _write(to, "".join(json.dumps(line.event) + "\n" for line in lines))
        return 0
    settings = load_settings(kafka=kafka)
    last = partial(_last_time, settings, rules)
    with _lines(rules, files, options, last) as (lines, reader), bar("sending") as shown:
        sent = asyncio.run(
            produce(
                settings,
                rules,
                lines,
                shown,
                wire=input_format,
                wait_s=wait_s if wait else None,
            )
        )
    left_out = 0 if reader is None else reader.left_out
    if as_json:
        figures = {"events": sent.events, "releases": sent.releases, "refused": sent.refused, "left_out": left_out}
        click.echo(json.dumps({**figures, "rejects": sent.rejects.as_json(), "dead_letters": sent.letters.as_json()}))
    else:
        click.echo(
            f"{counted(sent.events, 'event')} sent, {counted(sent.releases, 'release')} asked for, "
            f"{counted(sent.refused, 'line')} not sent"
        )
    if reader is not None and reader.after is not None:
        note(f"periods up to {reader.after} were released before, and are not sent again.")
    for example in sent.examples:
        note(example)
    if sent.refused > len(sent.examples):
        note(f"{sent.refused - len(sent.examples):,} more lines were not sent. All of them, by reason:")
        for sentence in sent.rejects.sentences():
            note(f"  {sentence}")
    for sentence in sent.notes:
        note(sentence)
    if left_out:
        note(f"{counted(left_out, 'row')} of people without a value: left out, as the mapping says.")
    if sent.letters.total:
        note(f"{counted(sent.letters.total, 'event')} of these had no effect; `shoal dead-letters` has each one:")
        for sentence in sent.letters.sentences():
            note(f"  {sentence}")
    return 2 if sent.refused or (sent.letters.total and sent.letters.total >= sent.events) else 0


def _last_time(settings: "Settings", policy: "Policy") -> str | None:
    """The time that the last release on the topic names."""
    from shoal.streams.kafka.release_search import last_committed

    last = asyncio.run(last_committed(settings.kafka_servers, policy.table))
    return None if last is None else json.loads(last.value).get("published_at")


def _write(to: str, text: str) -> None:
    from shoal.streams.files.fresh_file import write_fresh

    path = Path(to)
    if to == "-":
        click.echo(text, nl=False)
    elif path.exists() and not path.is_file():  # a pipe or a device must not be replaced by a file
        path.write_text(text, encoding="utf-8")
    else:
        write_fresh(path, text.encode())


@contextmanager
def _lines(
    policy: "Policy", files: tuple[str, ...], options: dict[str, Any], after: "Callable[[], str | None] | None" = None
) -> "Iterator[tuple[Iterable[Line], EventReader | None]]":
    """The lines to send, and their reader. A panel begins after the time that `after` finds."""
    from shoal.streams.files.event_lines import open_reader
    from shoal.streams.files.formats.external import read_external

    choice = choice_of(options["event_format"], options["mapping"], _columns(options))
    if files:
        with open_reader(policy, files, choice) as (reader, lines):
            if reader.is_panel and after is not None:
                reader.after = after()
            yield lines, reader
    elif any(choice):
        raise click.UsageError("columns of an external CSV file are named as in the policy, and need no option")
    else:
        yield list(read_external(policy, options["external"], options["publisher"])), None


def _columns(options: dict[str, Any]) -> dict[str, Any]:
    """The options that name columns, as sections of a mapping."""
    pairs = [one.partition("=") for one in options["attributes"]]
    if any(not equals for _, equals, _ in pairs):
        raise click.BadParameter("must be NAME=COLUMN", param_hint="--attribute")
    file = {"op": options["op_column"], "delimiter": options["delimiter"], "registers": options["register"]}
    sensitive = {"column": list(options["sensitive"]), "separator": options["separator"]}
    given: dict[str, dict[str, Any]] = {
        "people": {"id": options["id_column"]},
        "attributes": {name: column for name, _, column in pairs},
        "file": file,
        "sensitive": sensitive,
    }
    told = {section: {key: value for key, value in keys.items() if value} for section, keys in given.items()}
    return {section: keys for section, keys in told.items() if keys}
