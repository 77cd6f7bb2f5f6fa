"""The command `shoal`: finds the subcommand, and turns every error into one sentence and an exit code.

The codes are those of (docs/contract.md, "Exit codes"): 0 done; 1 a guarantee or check failed; 2 wrong usage or input;
3 a service cannot be reached; as in every shell, 130 for Ctrl-C and 141 for a reader that went away.

A new command is one module in this folder, which defines `command`, and one line in `COMMANDS`. Nothing heavy is
imported here or when such a module is imported: a command imports what it needs when it runs, so that `shoal --help`
is quick.
"""

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import IO

import click

from shoal import __version__

CHECK_FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130
READER_GONE = 141

COMPLETE = "_SHOAL_COMPLETE"
"""The variable with which a shell asks for completions."""

COMMANDS = {
    "demo": "Watch the whole pipeline on a made-up clinic; no services needed.",
    "replay": "Turn a file of events into a folder of releases, without a broker.",
    "worker": "Run the service: events from Kafka in, releases out.",
    "produce": "Send a file of events to the events topic.",
    "source": "Turn the changes of a database, from Debezium, into events.",
    "release": "Ask the running service for a release now.",
    "releases": "Read the releases topic, and check that it is unbroken.",
    "dead-letters": "Show what was rejected, where and why.",
    "audit": "Check that published releases keep every promise.",
    "report": "Measure how much the releases lost, as a page with plots.",
    "export": "Write releases as tables: CSV, Parquet, DuckDB or PostgreSQL.",
    "sink": "Keep the newest release in PostgreSQL or as Parquet files.",
    "policy": "Check a policy, or print the JSON Schemas.",
    "doctor": "Check what a worker needs: services, rights, versions, state.",
    "snapshot": "Write the state at the last release to an encrypted file.",
    "restore": "Bring a snapshot into an empty Redis.",
    "rebuild": "Rebuild Redis from the topics, or from a snapshot and later records.",
    "inspect": "Show what is stored of a table, and what a rebuild would do.",
    "upgrade": "Convert a table of an older version of Shoal.",
    "rekey": "Encrypt what Redis holds with another key.",
    "skip": "Skip one record that keeps releases from being made.",
    "completion": "Print a script with which your shell completes commands.",
}


@dataclass
class Invocation:
    """What one run of the command line was told; it outlives click's own context."""

    debug: bool = False


class LazyGroup(click.Group):
    """A group whose commands live in modules of the same name, imported when one is used."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"shoal.streams.cli.{name.replace('-', '_')}").command
        command.short_help = COMMANDS[name]
        return _with_debug(command)


def _remember_debug(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    invocation = ctx.find_object(Invocation)
    if value and invocation is not None:
        invocation.debug = True


DEBUG = click.Option(
    ["--debug"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_remember_debug,
    help="Show the traceback of an error; it may hold personal data.",
)


def is_debugging(ctx: click.Context) -> bool:
    """Whether `--debug` was given."""
    invocation = ctx.find_object(Invocation)
    return invocation is not None and invocation.debug


def _with_debug(command: click.Command) -> click.Command:
    """Allows `--debug` after the command too, where people put it."""
    if DEBUG not in command.params:
        command.params.append(DEBUG)
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        _with_debug(inner)
    return command


@click.command(cls=LazyGroup, params=[DEBUG], context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="shoal %(version)s")
def shoal() -> None:
    """Publish a changing table about people, release after release, so that nobody learns too much about anyone.

    Settings are read from the environment (SHOAL_KAFKA, SHOAL_REDIS, SHOAL_POLICY, SHOAL_KEY, …) or from a file `.env`.
    """


def main(args: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. Every error ends as one sentence on standard error."""
    if COMPLETE in os.environ:
        shoal.main(prog_name="shoal")  # the shell asks for completions
    invocation = Invocation()
    try:
        code = _run(list(sys.argv[1:] if args is None else args), invocation)
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_gone()
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - a user sees a traceback only with --debug
        return _explain(error, invocation)
    return code


def _run(args: list[str], invocation: Invocation) -> int:
    try:
        with shoal.make_context("shoal", args, obj=invocation) as ctx:
            result = shoal.invoke(ctx)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return WRONG_USAGE
    return result if isinstance(result, int) else 0


def _explain(error: Exception, invocation: Invocation) -> int:
    """Prints an error as one sentence, and returns its exit code."""
    from shoal.streams.errors import StreamsError

    if invocation.debug:
        _show_where(error)
    if isinstance(error, click.ClickException):
        return _say(_usage(error), WRONG_USAGE)
    if isinstance(error, StreamsError):
        return _say(str(error), error.exit_code)
    if isinstance(error, OSError):
        return _say(_system(error), WRONG_USAGE)
    name = type(error).__name__
    return _say(f"this is a mistake in Shoal ({name}); run the command again with --debug to see where.", CHECK_FAILED)


def _show_where(error: BaseException) -> None:
    """Prints the lines of code that led to an error, and to the errors that caused it.

    The message of an exception that is not Shoal's is left out: a KeyError quotes the key, which may be a person's id.
    """
    from shoal.core.errors import CoreError
    from shoal.streams.errors import StreamsError

    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        _show_where(cause)
    lines = ["Traceback (most recent call last):\n", *traceback.format_tb(error.__traceback__)]
    is_ours = isinstance(error, StreamsError | CoreError | click.ClickException)
    click.echo("".join(lines) + type(error).__name__ + (f": {error}" if is_ours else ""), err=True)


def _usage(error: click.ClickException) -> str:
    message = error.format_message().strip()
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{message.rstrip('.')} (see `{error.ctx.command_path} --help`)."
    return message


def _system(error: OSError) -> str:
    """The operating system's reason, with the name of the file but never its content."""
    reason = os.strerror(error.errno) if error.errno else "the system refused"
    if error.errno == errno.ENOSPC:
        reason = "no space left on the disk"
    return f"{error.filename}: {reason}." if error.filename else f"{reason}."


def _say(text: str, code: int) -> int:
    """Prints one sentence, or, if there are several mistakes, one on each line."""
    lines = text.splitlines()
    if len(lines) == 1 and not text.endswith("."):
        lines = [f"{text}."]
    try:
        click.echo("\n".join(line if line.startswith(" ") else f"shoal: {line}" for line in lines), err=True)
    except OSError:
        return code  # standard error is closed; the code still tells
    return code


def _reader_gone() -> int:
    """The reader of our output has gone: points the output elsewhere, or the interpreter's last flush fails too."""
    for stream in (sys.stdout, sys.stderr):
        _silence(stream)
    return READER_GONE


def _silence(stream: IO[str]) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, stream.fileno())
    except (OSError, ValueError):
        return
    finally:
        os.close(null)
