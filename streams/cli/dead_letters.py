"""`shoal dead-letters`: shows what was rejected, where and why."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.streams.cli.terminal import counted, json_option, note, quiet_clients

if TYPE_CHECKING:
    from shoal.streams.files.rejects import Tally
    from shoal.streams.kafka.dead_letters import Letter
    from shoal.streams.settings import Settings


@click.command()
@click.option("--policy", type=click.Path(path_type=Path), help="The table's policy [default: SHOAL_POLICY].")
@click.option("--follow", is_flag=True, help="Keep waiting for more.")
@click.option("--reason", "reasons", metavar="REASON", multiple=True, help="Only these reasons; repeat for several.")
@click.option("--show-content", is_flag=True, help="Show the rejected records themselves, which hold personal data.")
@click.option("--kafka", metavar="HOST:PORT", help="Broker [default: SHOAL_KAFKA].")
@json_option
def command(
    policy: Path | None, follow: bool, reasons: tuple[str, ...], show_content: bool, kafka: str | None, as_json: bool
) -> None:
    """Show what was rejected, where and why: a line for each dead letter, then how many there are by reason.

    A line has the topic, partition and offset of the record, the reason, the field and the op, and nothing that the
    sender wrote unless --show-content is given. With --json each line is an object. docs/contract.md explains the
    reasons.
    """
    from shoal.core.events.event import Reason
    from shoal.streams.files.policy_yaml import load_policy
    from shoal.streams.settings import load_settings

    unknown = sorted(set(reasons) - set(Reason))
    if unknown:
        told = f"there is no reason {unknown[0]}; there are {', '.join(Reason)}"
        raise click.BadParameter(told, param_hint="--reason")
    quiet_clients()
    settings = load_settings(required=["policy"], policy=None if policy is None else str(policy), kafka=kafka)
    table = load_policy(settings.policy_path).table
    tally = asyncio.run(_read(settings, table, follow, frozenset(reasons), _shown(as_json, show_content)))
    if not tally.total:
        note("there are no dead letters." if not reasons else "there are no dead letters with this reason.")
    elif not as_json:
        note(f"{counted(tally.total, 'dead letter')}:")
        for one in tally:
            note(f"  {one.events:,} × {one.what}")


def _shown(as_json: bool, show_content: bool) -> Any:
    def show(letter: "Letter") -> None:
        if as_json:
            told: dict[str, Any] = letter._asdict()
            key, content = told.pop("key"), told.pop("content")
            if show_content:
                told |= {"key": _text(key), "content": _text(content)}
            click.echo(json.dumps({name: value for name, value in told.items() if value is not None}))
            return
        click.echo(f"{letter.at}  {letter.topic} {letter.partition} {letter.offset}  {letter.what}")
        if show_content:
            body = _text(letter.content)
            click.echo("    no body: its record was too large, or was deleted" if body is None else f"    {body}")

    return show


def _text(raw: bytes | None) -> str | None:
    """Bytes as they may be shown: JSON and msgpack as JSON, anything else in Python's notation."""
    if raw is None:
        return None
    import msgspec

    for decode in (msgspec.json.decode, msgspec.msgpack.decode):
        try:
            found = decode(raw)
            if isinstance(found, dict | list):
                return json.dumps(found, ensure_ascii=True, default=repr)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return repr(raw)[2:-1]


async def _read(settings: "Settings", table: str, follow: bool, reasons: frozenset[str], show: Any) -> "Tally":
    from shoal.streams.files.rejects import Tally
    from shoal.streams.kafka.dead_letters import read_letters

    tally = Tally()
    async for letter in read_letters(settings, table, follow=follow):
        if not reasons or letter.reason in reasons:
            tally.count(letter.reason, letter.op, letter.field, letter.offset)
            show(letter)
    return tally
