"""The options by which a command is told the format of its events: a flag for each format, and --map."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from shoal.streams.files.formats import DEFAULT, FORMATS

if TYPE_CHECKING:
    from shoal.streams.files.formats.format import FormatChoice

Command = TypeVar("Command", bound=Callable[..., Any])

WRITTEN = " or ".join(known.what for known in FORMATS.values())  # for a command's help


def format_options(whose: str) -> Callable[[Command], Command]:
    """Adds `--csv` and so on, and `--map`, to a command; its function gets them as `event_format` and `mapping`."""

    def add(command: Command) -> Command:
        command = click.option(
            "--map", "mapping", type=click.Path(path_type=Path), help="YAML file that names the columns of a CSV file."
        )(command)
        for name, known in FORMATS.items():
            if name != DEFAULT:
                told = f"{whose} is {known.what} [default: if its name ends in {' or '.join(known.suffixes)}]."
                command = click.option(f"--{name}", "event_format", flag_value=name, help=told)(command)
        return command

    return add


def choice_of(name: str | None, mapping: Path | None, columns: Mapping[str, Any] | None = None) -> "FormatChoice":
    """The format that the options of a command ask for."""
    from shoal.streams.files.formats.format import FormatChoice

    return FormatChoice(name, mapping, columns or {})
