"""`--json`: every command that prints figures prints them as JSON, too; and shells complete commands."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

import shoal
from shoal.streams import cli
from shoal.streams.cli import COMMANDS, main
from tests.support.root import ROOT

WARD = ROOT / "examples" / "ward"
# They print no figures: services, a show, a request, a script for a shell.
WITHOUT_FIGURES = {"demo", "worker", "source run", "source check", "skip", "policy init", "policy change", "completion"}


def commands() -> dict[str, click.Command]:
    """Every command, by its words."""
    context = click.Context(cli.shoal)
    found: dict[str, click.Command] = {}
    for name in COMMANDS:
        command = cli.shoal.get_command(context, name)
        assert command is not None
        inner = command.commands if isinstance(command, click.Group) else {}
        found |= {f"{name} {word}": one for word, one in inner.items()} or {name: command}
    return found


def test_every_command_that_prints_figures_has_json() -> None:
    without = {
        name for name, command in commands().items() if not any("--json" in option.opts for option in command.params)
    }
    assert without == WITHOUT_FIGURES | {"policy schema"}  # which is JSON already


def run(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert main(list(words)) == 0
    return json.loads(capsys.readouterr().out)


def test_the_figures_are_those_of_the_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy, events, out = str(WARD / "policy.yaml"), str(WARD / "events.jsonl"), str(tmp_path / "out")
    replayed = run(capsys, "replay", policy, events, "--out", out, "--json")
    last = shoal.read_releases(out)[-1].manifest
    assert (replayed["releases"], replayed["accepted"], replayed["rejected"]) == (3, 86, 1)
    assert replayed["manifest"] == last
    assert run(capsys, "audit", policy, out, "--json")["kept"] is True
    reported = run(capsys, "report", policy, out, "--out", str(tmp_path / "report"), "--json")
    assert reported == json.loads((tmp_path / "report" / "report.json").read_text())
    assert reported["releases"][-1]["people"] == last["people"]
    exported = run(capsys, "export", out, "--to", "csv", "--out", str(tmp_path / "csv"), "--json")
    assert exported == {"to": "csv", "place": str(tmp_path / "csv"), "releases": 3}
    checked = run(capsys, "policy", "check", policy, "--sample", events, "--json")
    said = {line["name"]: line["sentence"] for line in checked["policy"]}
    assert said["table"] == "ward"
    assert any("no trigger" in warning for warning in checked["warnings"])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_ask(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert cli.COMPLETE in script
    assert f"{shell}_complete" in script


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("shoal ex", "export"), ("shoal export --to ", "parquet"), ("shoal policy schema as", "asyncapi")],
)
def test_a_shell_that_asks_is_answered(typed: str, offered: str) -> None:
    asking = {cli.COMPLETE: "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", "from shoal.streams.cli import main; main()"],
        env={**os.environ, **asking}, cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert f"plain,{offered}" in done.stdout.splitlines()
