"""`shoal rekey`: encrypts what Redis holds with another key."""

import json
from pathlib import Path

import click

from shoal.streams.cli.terminal import bar, json_option


@click.command()
@click.option("--policy", type=click.Path(path_type=Path), help="The table's policy [default: SHOAL_POLICY].")
@json_option
def command(policy: Path | None, as_json: bool) -> None:
    """Encrypt everything that Redis holds about people with the first key of SHOAL_STATE_KEY.

    SHOAL_STATE_KEY lists the new key first and then the keys in use so far. Workers that have the new key first go on
    meanwhile; others end. A table that is not encrypted yet is encrypted; stop its workers before. It may be
    interrupted, and run again.
    """
    from shoal.streams.settings import load_settings
    from shoal.streams.worker.rekey import run_rekey

    settings = load_settings(required=["policy", "state_key"], policy=None if policy is None else str(policy))
    with bar("encrypting"):
        done = run_rekey(settings)
    if as_json:
        click.echo(json.dumps(done._asdict()))
        return
    click.echo(
        f"Table {done.table}: {done.values} of {done.of} values are written anew; all are under the first key of "
        "SHOAL_STATE_KEY now, and the others may be removed."
    )
