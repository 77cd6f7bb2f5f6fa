"""The options that give a secret: from a file or, where everyone can read it, on the command line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from shoal.streams.cli.terminal import note

F = TypeVar("F", bound=Callable[..., Any])


def secret_options(purpose: str) -> Callable[[F], F]:
    """`--seed` and `--seed-file`; `purpose` says what the secret is for, and what there is without one."""

    def add(command: F) -> F:
        command = click.option(
            "--seed",
            help="The secret itself. Prefer --seed-file: everyone on this machine can see a command's arguments.",
        )(command)
        return click.option(
            "--seed-file", type=click.Path(path_type=Path), help=f"Private file with the secret {purpose}."
        )(command)

    return add


def read_secret(seed: str | None, seed_file: Path | None) -> bytes | None:
    """The seed, or the file's content, or SHOAL_KEY, which is the same secret; None without any."""
    if seed is not None and seed_file is not None:
        raise click.UsageError("--seed and --seed-file are the same secret: give one of the two")
    if seed is not None:
        if not seed:
            raise click.BadParameter("an empty seed is no secret", param_hint="--seed")
        note("everyone on this machine can see --seed in the list of processes; --seed-file or SHOAL_KEY is better.")
        return seed.encode("utf-8", "surrogateescape")
    if seed_file is not None:
        return _read(seed_file)
    from shoal.streams.settings import load_settings

    key = load_settings().key
    return None if key is None else key.get_secret_value().encode("utf-8", "surrogateescape")


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes().removesuffix(b"\n").removesuffix(b"\r")
    except OSError:
        raise click.BadParameter(f"{path} cannot be read", param_hint="--seed-file") from None
    if not content:
        raise click.BadParameter(f"{path} is empty, which is no secret", param_hint="--seed-file")
    return content
