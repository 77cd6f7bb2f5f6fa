"""`shoal upgrade STATE`: converts a state file of `shoal replay` that an older version has written.

1. keep    the file as it is, beside it
2. ids     for --audit: whose the handles are, which the file has had instead until now
3. write   the converted file in its place, atomically

Killed anywhere, it is run again.
"""

from pathlib import Path
from typing import NamedTuple

from shoal.core.older import Layout
from shoal.core.randomness import KeyedByHandle
from shoal.core.state import ENGINE
from shoal.streams.errors import InputError
from shoal.streams.faults import crash_point
from shoal.streams.files.fresh_file import PRIVATE, write_fresh
from shoal.streams.files.names import Names
from shoal.streams.files.older_policy import read_older_policy
from shoal.streams.files.replay_state import StateFile
from shoal.streams.memory import without_cycle_search


class StateUpgrade(NamedTuple):
    """What is to be done about a state file, or was."""

    layout: Layout
    release: int
    adds_values: bool
    kept: Path | None
    """Where the file as it is is kept; None if it needs nothing."""


def look_state(path: Path, policy_path: Path) -> StateUpgrade:
    """What `upgrade_state` would do. Raises InputError if it would be refused."""
    opened = StateFile(path).open()
    layout, release = opened.layout, opened.meta.release
    if not layout.is_known:
        raise InputError(
            f"{path} was made by engine {layout.engine}, and this is engine {ENGINE}: use the version that wrote it"
        )
    if layout.is_current:
        return StateUpgrade(layout, release, adds_values=False, kept=None)
    older = read_older_policy(policy_path, layout, opened.header["policy"], f"the table of {path}")
    kept = path.with_name(f"{path.name}.format-{layout.number - 1}")
    return StateUpgrade(layout, release, older.adds_values, kept)


def upgrade_state(path: Path, policy_path: Path, audit: Path | None) -> StateUpgrade:
    """All steps; returns what was done. Raises InputError, OSError."""
    with StateFile(path).locked() as file, without_cycle_search():
        upgrade = look_state(path, policy_path)
        if upgrade.kept is None:
            return upgrade
        write_fresh(upgrade.kept, path.read_bytes(), PRIVATE)  # 1
        crash_point("upgrade.state.1")
        opened = file.open()
        policy = read_older_policy(policy_path, opened.layout, opened.header["policy"], str(path)).policy
        ids: list[str] = []
        saved = opened.load(policy, ids.append)
        if audit is not None:
            names = Names(audit, KeyedByHandle(saved.secret, policy.table))
            names.write([names.handle(person) for person in ids])  # 2
        crash_point("upgrade.state.2")
        file.save(saved.secret, saved.position, saved.state)  # 3
        return upgrade
