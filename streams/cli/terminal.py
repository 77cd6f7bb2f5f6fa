"""Progress bars, on a terminal only, and notes on standard error."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.progress import Progress


json_option = click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")

web_port_option = click.option(
    "--web-port",
    metavar="PORT",
    type=click.IntRange(1, 65535),
    help="Serve /health, /ready and /metrics on this port of SHOAL_WEB_BIND [default: serve nothing].",
)


def note(sentence: str) -> None:
    """Prints a remark to standard error, so that standard output has results only."""
    click.echo(f"shoal: {sentence}", err=True)


def counted(count: int, noun: str) -> str:
    """A number and its noun: `1 person`, `2 people`."""
    plural = _PLURALS.get(noun, f"{noun}s")
    return f"{count:,} {noun if count == 1 else plural}"


_PLURALS = {"person": "people"}


def quiet_clients() -> None:
    """Keeps a Kafka client's own messages about retries off the screen: Shoal's errors say what matters."""
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())


class Bar:
    """One line of progress on standard error; silent if that is no terminal."""

    def __init__(self, progress: "Progress | None") -> None:
        self._progress = progress
        self._task = None if progress is None else progress.add_task("", total=None, said="")

    def begin(self, total: int | None) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, total=total, completed=0)

    def advance(self, amount: int) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task, amount)

    def say(self, text: str) -> None:
        """Shows a few words behind the bar."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, said=text)

    def note(self, sentence: str) -> None:
        """A note above the bar."""
        if self._progress is None:
            note(sentence)
        else:
            self._progress.console.print(f"shoal: {sentence}", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def bar(title: str, *, in_bytes: bool = False) -> Iterator[Bar]:
    """A progress bar, removed at the end of the block."""
    if not sys.stderr.isatty():
        yield Bar(None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    amount = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn(title), BarColumn(), amount, TimeElapsedColumn(), TextColumn("{task.fields[said]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Bar(progress)
