"""`shoal produce`: sends a file of events to the events topic."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.streams.cli.event_format import choice_of, format_options
from shoal.streams.cli.terminal import bar, json_option, note, quiet_clients
from shoal.streams.files.formats import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shoal.core.policy.policy import Policy
    from shoal.streams.files.formats.format import Line


PUBLISHED_AS = " or ".join(known.what for known in PUBLISHED.values())


@click.command()
@click.argument("policy", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(allow_dash=True), required=False)
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
@click.option("--wait", is_flag=True, help="After each release line, wait until that release is published.")
@click.option("--wait-s", default=600.0, show_default=True, help="How many seconds to wait for a release.")
@click.option("--kafka", metavar="HOST:PORT", help="Broker [default: SHOAL_KAFKA].")
@json_option
def command(
    policy: Path,
    file: str | None,
    to: str | None,
    wire: str,
    wait: bool,
    wait_s: float,
    kafka: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Send a file of events to the events topic.

    FILE has one JSON object per line, or is CSV with a header; `-` reads standard input. A line that is no event at all
    is reported, and not sent. {"op": "release"} asks for a release of every event before it.

    With --external and --publisher, the releases of another publisher go to the external topic: every later release of
    Shoal is safe to publish beside them.
    """
    from shoal.streams.files.policy_yaml import load_policy
    from shoal.streams.files.produce import produce
    from shoal.streams.intake.formats import by_name
    from shoal.streams.settings import load_settings

    quiet_clients()
    rules, input_format = load_policy(policy), by_name(wire)
    if (options["external"] is None) != (options["publisher"] is None) or (file is None) == (not options["external"]):
        raise click.UsageError("give either FILE, or --external and --publisher")
    if to is not None:
        if file is not None:
            raise click.UsageError("--to goes with --external")
        with _lines(rules, None, options) as lines:
            _write(to, "".join(json.dumps(line.event) + "\n" for line in lines))
        return 0
    settings = load_settings(kafka=kafka)
    with _lines(rules, file, options) as lines, bar("sending") as shown:
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
    if as_json:
        click.echo(json.dumps({"events": sent.events, "releases": sent.releases, "refused": sent.refused}))
    else:
        click.echo(f"{sent.events} events sent, {sent.releases} releases asked for, {sent.refused} lines not sent")
    for example in sent.examples:
        note(example)
    if sent.refused > len(sent.examples):
        note(f"{sent.refused - len(sent.examples):,} more lines were not sent.")
    return 2 if sent.refused else 0


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
def _lines(policy: "Policy", file: str | None, options: dict[str, Any]) -> "Iterator[Iterable[Line]]":
    from shoal.streams.files.event_lines import open_events
    from shoal.streams.files.formats.external import read_external

    choice = choice_of(options["event_format"], options["mapping"], _columns(options))
    if file is not None:
        with open_events(policy, file, choice) as lines:
            yield lines
    elif any(choice):
        raise click.UsageError("columns of an external CSV file are named as in the policy, and need no option")
    else:
        yield list(read_external(policy, options["external"], options["publisher"]))


def _columns(options: dict[str, Any]) -> dict[str, Any]:
    """The options that name columns, as a mapping file would."""
    pairs = [one.partition("=") for one in options["attributes"]]
    if any(not equals for _, equals, _ in pairs):
        raise click.BadParameter("must be NAME=COLUMN", param_hint="--attribute")
    given = {
        "id": options["id_column"],
        "op": options["op_column"],
        "attributes": {name: column for name, _, column in pairs},
        "sensitive": options["sensitive"],
        "separator": options["separator"],
        "delimiter": options["delimiter"],
        "register": options["register"],
    }
    return {name: value for name, value in given.items() if value}
