"""`shoal shard`: a shard that cannot be planned, or a desk that cannot gather, in a file, and repeated from it."""

import json
from pathlib import Path

import click

from shoal.streams.cli.terminal import json_option, quiet_clients


@click.group()
def command() -> None:
    """Find out why a shard keeps a release from being made."""


@command.command()
@click.option("--shard", type=click.IntRange(min=0), required=True, help="The shard, as `/ready` names it.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The file; it is encrypted, mode 0600.")
@click.option("--policy", type=click.Path(path_type=Path), help="The table's policy [default: SHOAL_POLICY].")
@json_option
def dump(shard: int, out: Path, policy: Path | None, as_json: bool) -> None:
    """Write one shard, and what the release under way tells it, to an encrypted file.

    If `/ready` names the desk of that number, its window and the people in it are written instead. The release waits
    meanwhile as it did before; nothing is changed. `shoal shard plan` reads the file.
    """
    from shoal.streams.settings import load_settings
    from shoal.streams.worker.shard_dump import run_dump

    quiet_clients()
    settings = load_settings(required=["policy", "key"], policy=None if policy is None else str(policy))
    done = run_dump(settings, shard, out)
    if as_json:
        click.echo(json.dumps({**done._asdict(), "path": str(out)}))
        return
    who = "desk" if done.is_desk else "shard"
    click.echo(f"{out}: {who} {done.shard} of release {done.release} of table {done.table}, {done.people:,} people")


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@click.pass_context
def plan(ctx: click.Context, file: Path, as_json: bool) -> None:
    """Plan a dumped shard, or repeat what a dumped desk did, without any service, and say where that fails.

    It looks for the record without which it would not fail, and says how to skip it. Needs the keys of the table, and
    shows nothing of what is in the file.
    """
    from shoal.streams.cli import CHECK_FAILED
    from shoal.streams.settings import load_settings
    from shoal.streams.worker.dumped_desk import GatheredDump
    from shoal.streams.worker.dumped_shard import plan_dump

    done = plan_dump(load_settings(required=["key"]), file)
    advice = None if done.culprit is None else done.culprit.advice
    is_desk = isinstance(done, GatheredDump)
    who, what = (f"Desk {done[2]}", "gathered") if is_desk else (f"Shard {done[2]}", "planned")
    result = "what it found" if is_desk else "its part"
    if as_json:
        click.echo(json.dumps({**done._asdict(), "culprit": advice}))
    elif done.error is None:
        click.echo(f"{who} of release {done.release} can be {what}; the digest of {result} is {done.digest}.")
    else:
        click.echo(f"{who} of release {done.release} cannot be {what}: {done.error}")
        for frame in done.frames:
            click.echo(f"  {frame}")
        click.echo(
            f"To free the release, {advice}." if advice else "It fails without any of the window's records, too."
        )
    if done.error is not None:
        ctx.exit(CHECK_FAILED)
