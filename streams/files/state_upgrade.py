"""`shoal upgrade STATE`: converts a state file of `shoal replay` in an older format.

1. keep    the file as it is, beside it
2. write   the converted file in its place, atomically

Killed anywhere, it is run again.
"""

from pathlib import Path
from typing import NamedTuple

from shoal.core.migrations import Layout
from shoal.core.policy.meaning import meaning_of
from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.faults import crash_point
from shoal.streams.files.fresh_file import PRIVATE, write_fresh
from shoal.streams.files.replay_state import StateFile, other_version
from shoal.streams.memory import without_cycle_search


class StateUpgrade(NamedTuple):
    """What is to be done about a state file, or was."""

    layout: Layout
    release: int
    kept: Path | None
    """Where the file as it is is kept; None if it needs nothing."""


def look_state(path: Path, policy: Policy) -> StateUpgrade:
    """What `upgrade_state` would do. Raises InputError if it would be refused."""
    opened = StateFile(path).open()
    layout, release = opened.layout, opened.meta.release
    if not layout.is_known:
        raise other_version(path, layout)
    if layout.is_current:
        return StateUpgrade(layout, release, kept=None)
    if policy.shards > 1:
        raise InputError(f"{path} is of a table with shards, which no version converts yet")
    if opened.header["policy"] != meaning_of(policy):
        raise InputError(f"{path} belongs to another policy; give the one that it was made under.")
    return StateUpgrade(layout, release, kept=path.with_name(f"{path.name}.format-{layout.number}"))


def upgrade_state(path: Path, policy: Policy) -> StateUpgrade:
    """All steps; returns what was done. Raises InputError, OSError."""
    with StateFile(path).locked() as file, without_cycle_search():
        upgrade = look_state(path, policy)
        if upgrade.kept is None:
            return upgrade
        write_fresh(upgrade.kept, path.read_bytes(), PRIVATE)  # 1
        crash_point("upgrade.state.1")
        saved = file.open().load(policy)
        file.save(saved.secret, saved.position, saved.state)  # 2
        return upgrade
