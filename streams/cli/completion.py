"""`shoal completion`: what a shell needs to complete commands, options and files."""

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of SHELL.

    For this session: `eval "$(shoal completion bash)"`, or for fish `shoal completion fish | source`. For every
    session, put that line into the shell's own file (~/.bashrc, ~/.zshrc, ~/.config/fish/config.fish).
    """
    from click.shell_completion import get_completion_class

    from shoal.streams.cli import COMPLETE, shoal

    kind = get_completion_class(shell)
    assert kind is not None, "click knows the three shells"
    click.echo(kind(shoal, {}, "shoal", COMPLETE).source(), nl=False)
