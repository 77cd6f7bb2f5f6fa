"""`shoal upgrade`: converts a table of an older version of Shoal."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.streams.cli.terminal import bar, json_option, note

if TYPE_CHECKING:
    from shoal.core.migrations import Layout


@click.command()
@click.argument("state", required=False, type=click.Path(path_type=Path))
@click.option("--policy", type=click.Path(path_type=Path), help="The table's policy [default: SHOAL_POLICY].")
@click.option(
    "--to", type=click.Path(path_type=Path), help="Folder for the copy and the snapshot [default: the policy's]."
)
@click.option("--without-snapshot", is_flag=True, help="Take no snapshot, although a later rebuild will need one.")
@click.option("--back", type=click.Path(path_type=Path), help="Bring back a copy that an upgrade kept.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def command(
    state: Path | None,
    policy: Path | None,
    to: Path | None,
    without_snapshot: bool,
    back: Path | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Convert a table of an older version of Shoal: in Redis or, with STATE, in a replay's state file.

    Stop the workers before. It says what it will do, and asks. What Redis holds is copied to a file as it is,
    converted, and kept in a snapshot, which a later rebuild needs. It may be interrupted, and run again.
    """
    if state is not None:
        _upgrade_file(state, policy, is_agreed=yes, as_json=as_json)
        return
    from shoal.streams.settings import load_settings
    from shoal.streams.worker.upgrade import look_upgrade, run_back, run_upgrade

    settings = load_settings(required=["policy", "key"], policy=None if policy is None else str(policy))
    if back is not None:
        _ask(f"Everything that Redis holds of the table is replaced by {back}.", is_agreed=yes)
        done = run_back(settings, back)
        _say(as_json, done.layout, done.release, f"Table {done.table} is what it was: {_named(done.layout)}.")
        return
    found = look_upgrade(settings, to)
    if found.is_current and found.snapshot is None:
        _say(as_json, found.layout, found.release, f"Table {found.table} is up to date: {_named(found.layout)}.")
        return
    steps = [f"a copy of it goes to {found.copy}, and it is converted"] if found.copy is not None else []
    steps += [f"a snapshot of release {found.release} goes to {found.snapshot}"] if found.snapshot is not None else []
    _ask(f"Table {found.table} has {_named(found.layout)}; {', and '.join(steps) or 'it goes on'}.", is_agreed=yes)
    with bar("upgrading"):
        done = run_upgrade(settings, to, without_snapshot=without_snapshot)
    _say(as_json, done.layout, done.release, f"Table {done.table} goes on after release {done.release}.")


def _upgrade_file(state: Path, policy: Path | None, *, is_agreed: bool, as_json: bool) -> None:
    from shoal.streams.files.policy_yaml import load_policy
    from shoal.streams.files.state_upgrade import look_state, upgrade_state
    from shoal.streams.settings import load_settings

    settings = load_settings(required=["policy"], policy=None if policy is None else str(policy))
    rules = load_policy(settings.policy_path)
    found = look_state(state, rules)
    if found.kept is None:
        _say(as_json, found.layout, found.release, f"{state} needs nothing: it has this version's format.")
        return
    _ask(f"{state} has {_named(found.layout)}; it is kept as {found.kept}, and converted.", is_agreed=is_agreed)
    done = upgrade_state(state, rules)
    _say(as_json, done.layout, done.release, f"{state} goes on after release {done.release}.")


def _named(layout: "Layout") -> str:
    return f"format {layout.number} of engine {layout.engine}"


def _ask(sentence: str, *, is_agreed: bool) -> None:
    note(sentence)
    if not is_agreed:
        click.confirm("Go on?", abort=True, err=True)


def _say(as_json: bool, layout: "Layout", release: int, sentence: str) -> None:
    before = {"format": layout.number, "engine": layout.engine, "release": release}
    click.echo(json.dumps(before) if as_json else sentence)
