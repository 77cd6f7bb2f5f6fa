"""`shoal source` and `shoal source check`."""

from pathlib import Path

import click

from shoal.streams.cli.terminal import quiet_clients, web_port_option


class DefaultGroup(click.Group):
    """`shoal source POLICY MAPPING` is `shoal source run POLICY MAPPING`."""

    default = "run"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [self.default, *args]
        return super().parse_args(ctx, args)


@click.group(cls=DefaultGroup)
def command() -> None:
    """Turn the changes of a database into events: `shoal source POLICY MAPPING`."""


@command.command()
@click.argument("policy", type=click.Path(path_type=Path))
@click.argument("mapping", type=click.Path(path_type=Path))
@click.option(
    "--stop-after",
    "stop_after_s",
    metavar="SECONDS",
    type=click.FloatRange(0),
    help="Stop once everything is read and nothing has come for so many seconds.",
)
@click.option("--anew", is_flag=True, help="Discard the source's state, and read the topics from their beginning.")
@web_port_option
@click.pass_context
def run(
    ctx: click.Context, policy: Path, mapping: Path, stop_after_s: float | None, anew: bool, web_port: int | None
) -> int:
    """Run the source: Debezium's topics in, events out, until Ctrl-C or SIGTERM."""
    from shoal.streams.cli import is_debugging
    from shoal.streams.settings import load_settings
    from shoal.streams.source.app import run_source

    quiet_clients()
    settings = load_settings(required=["key"])
    return run_source(
        settings, policy, mapping, stop_after_s=stop_after_s, anew=anew, web_port=web_port, debug=is_debugging(ctx)
    )


@command.command()
@click.argument("policy", type=click.Path(path_type=Path))
@click.argument("mapping", type=click.Path(path_type=Path))
def check(policy: Path, mapping: Path) -> None:
    """Check a mapping against its policy: list every mistake in it, or say what is read from where."""
    from shoal.streams.files.mapping.mapping import load_mapping
    from shoal.streams.files.mapping.summary import describe
    from shoal.streams.files.policy_yaml import load_policy

    for line in describe(load_mapping(mapping, load_policy(policy))):
        click.echo(line)
