"""The policy of a table that an older version has begun (core/older.py)."""

from pathlib import Path
from typing import NamedTuple

from shoal.core.older import Layout
from shoal.core.policy.meaning import meaning_of
from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.files.policy_yaml import PolicyFileError, load_policy


class OlderPolicy(NamedTuple):
    """A policy as the version that began the table understood it."""

    policy: Policy
    adds_values: bool
    """Whether its file has to say `values: redrawn` from now on, which under engine 1.0 no policy had to."""


def table_of(path: Path) -> str:
    """The name of a policy's table. Raises PolicyFileError."""
    try:
        return load_policy(path).table
    except PolicyFileError as error:
        try:
            return load_policy(path, "redrawn").table  # it may be of engine 1.0
        except PolicyFileError:
            raise error from None


def read_older_policy(path: Path, layout: Layout, bound: str, subject: str, values: str = "") -> OlderPolicy:
    """The policy that `subject`, a table or its state file, is bound to: by its meaning or by the digest of its files.

    `values` is the table's model, where that is stored. Raises PolicyFileError, and InputError if it is another policy.
    """
    model = values or layout.values
    policy = load_policy(path, model)
    if layout.values not in (None, policy.values):
        raise InputError(
            f"{subject} is redrawn, as everything of engine {layout.engine} is, and cannot become lasting: its values "
            "were shown without signatures; write values: redrawn into the policy, or begin a new table"
        )
    if bound != (meaning_of(policy) if layout.names_meaning else policy.digest):
        to_do = "give the original policy file and hierarchy files"
        if not layout.names_meaning:
            to_do = f"engine {layout.engine} knows a policy by the bytes of its files, so give the original files"
        raise InputError(f"{subject} was begun under another policy: {to_do}")
    return OlderPolicy(policy, model is not None and not _is_named(path, policy))


def _is_named(path: Path, policy: Policy) -> bool:
    try:
        return load_policy(path).values == policy.values
    except PolicyFileError:
        return False
