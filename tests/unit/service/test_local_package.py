"""A package of the system is installed only if somebody agreed; otherwise it is said which one is missing."""

import io
import subprocess
from typing import Any

import pytest

from deploy.local import package
from deploy.local.__main__ import main


class Terminal(io.StringIO):
    """Somebody who types an answer."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What was run by root on Debian, where nothing was agreed to beforehand."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> "subprocess.CompletedProcess[bytes]":
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None)
    monkeypatch.setattr("subprocess.run", run)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    for variable in package.ALLOWED:
        monkeypatch.delenv(variable, raising=False)
    return commands


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "what?\n"])
def test_without_a_yes_nothing_is_installed(
    ran: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str
) -> None:
    package.install_package("postgresql")
    assert capsys.readouterr().err == "", "nobody is there to be asked"
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    package.install_package("postgresql")
    assert "The package postgresql is not installed. Install it on this machine? [y/N]" in capsys.readouterr().err
    assert ran == []


def test_a_yes_typed_or_set_installs_it(ran: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    package.install_package("postgresql")
    monkeypatch.setenv("INSTALL_PACKAGES", "yes")
    package.install_package("redis-server")
    assert [command[-1] for command in ran] == ["postgresql", "redis-server"]


def test_all_that_is_missing_is_said_at_once(
    ran: list[list[str]], capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert main(["up-cdc", "--folder", str(tmp_path_factory.mktemp("local"))]) == 3
    said = capsys.readouterr().err
    assert "apt-get install default-jre-headless maven" in said
    assert ran == []
