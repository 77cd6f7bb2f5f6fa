"""What the repository says about itself is true: commands, targets, links, pins and settings that are named exist."""

import re
import shlex
import stat
import subprocess
import tomllib
from importlib import metadata

import click
import pytest
from packaging.requirements import Requirement

from shoal.streams.cli import COMMANDS, main, shoal
from shoal.streams.cli.source import DefaultGroup
from shoal.streams.settings import FOREIGN, SECRET_FILES, Settings
from tests.repository.test_pages import PAGES
from tests.support.root import ROOT, source_files

# Read by the soak tests alone.
_SOAK = frozenset(("SHOAL_SOAK_MINUTES", "SHOAL_SOAK_SEED"))
_FENCE = re.compile(r"^ *```.*?\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def code(page: str) -> list[str]:
    """Every line of a fenced block and every inline span of code; prose such as “make sure” is none."""
    text = (ROOT / page).read_text(encoding="utf-8")
    fenced = [line.strip() for block in _FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    return fenced + _SPAN.findall(_FENCE.sub("", text))


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def options(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}


def command_at(words: list[str]) -> tuple[click.Command, list[str]]:
    """The innermost command that the words after `shoal` name, and the words that remain."""
    with click.Context(shoal) as ctx:
        command: click.Command = shoal
        while words and isinstance(command, click.Group) and words[0] in command.list_commands(ctx):
            inner = command.get_command(ctx, words[0])
            assert inner is not None
            command, words = inner, words[1:]
        if isinstance(command, DefaultGroup):
            command = command.commands[command.default]
    return command, words


def named_targets(page: str) -> set[str]:
    return {target for line in code(page) for target in re.findall(r"\bmake ([a-z][a-z-]*)", line)}


def calls(page: str) -> list[str]:
    """What follows `shoal` wherever a page calls the command."""
    return [call for line in code(page) for call in re.findall(r"(?:^|[\s/;|&$])shoal ([^|;&#>]+)", line)]


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_that_a_page_names_exists(page: str) -> None:
    assert named_targets(page) <= targets()


def test_the_pages_say_how_to_begin() -> None:
    for page in ("README.md", "CONTRIBUTING.md", "docs/contributing.md"):
        assert named_targets(page), page
    called = {call.split()[0] for call in calls("docs/contract.md")}
    assert called >= set(COMMANDS), "docs/contract.md names every command"
    assert calls("README.md")


@pytest.mark.parametrize("page", PAGES)
def test_every_shoal_command_that_a_page_names_exists_with_its_options(page: str) -> None:
    for call in calls(page):
        words = shlex.split(call.replace("…", " ").replace("[", " ").replace("]", " "), comments=True)
        if words[0].startswith("-"):
            continue
        command, rest = command_at(words)
        assert command is not shoal, f"{page} names `shoal {words[0]}`, which does not exist"
        unknown = (
            {word.split("=")[0] for word in rest if re.match(r"--?[a-z]", word)} - options(command) - {"--help", "-h"}
        )
        assert not unknown, f"`shoal {call.strip()}` has no {', '.join(unknown)}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_explain_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert name in capsys.readouterr().out


@pytest.mark.parametrize("page", [*PAGES, ".env.example"])
def test_every_setting_that_is_named_exists(page: str) -> None:
    named = set(re.findall(r"\bSHOAL_[A-Z_]*[A-Z]\b", (ROOT / page).read_text(encoding="utf-8")))
    known = Settings.model_fields.keys() | SECRET_FILES.keys()
    assert {name for name in named - FOREIGN - _SOAK if name.removeprefix("SHOAL_").lower() not in known} == set()


def test_the_example_settings_show_the_true_defaults() -> None:
    shown = re.findall(r"^# SHOAL_([A-Z_]+)=(.+)$", (ROOT / ".env.example").read_text(), re.MULTILINE)
    assert shown
    for name, value in shown:
        assert str(Settings.model_fields[name.lower()].default) == value, name


def test_make_lists_the_targets_it_promises() -> None:
    listed = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in (
        "help",
        "demo",
        "test",
        "test-fast",
        "lint",
        "check",
        "bench",
        "experiments",
        "soak",
        "up",
        "down",
        "worker",
    ):
        assert re.search(rf"^  make {target} +\S", listed.stdout, re.MULTILINE), target


def test_ci_runs_what_make_check_runs_and_skips_nothing_for_want_of_a_service() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & stat.S_IXUSR
    assert subprocess.run(["bash", "-n", script]).returncode == 0
    lines = script.read_text().splitlines()
    assert lines[-2:] == ["export SHOAL_REQUIRE_SERVICES=1", "exec make check"]
    check = subprocess.run(["make", "--dry-run", "check"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for step in ("ruff check", "ruff format --check", "mypy", "lint-imports", "pytest"):
        assert step in check, step


def test_constraints_are_names_and_versions_only() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert lines
    for line in lines:
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line), line


def test_every_dependency_is_pinned_within_what_it_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().lower().replace("_", "-").splitlines()
        if "==" in line
    )
    wanted = [
        *project["dependencies"],
        *project["optional-dependencies"]["test"],
        *project["optional-dependencies"]["dev"],
    ]
    for requirement in map(Requirement, wanted):
        if requirement.name != "shoal":
            assert requirement.specifier.contains(pins[requirement.name.lower().replace("_", "-")]), requirement.name


def test_the_installed_command_is_this_one() -> None:
    (script,) = metadata.entry_points(group="console_scripts", name="shoal")
    assert script.load() is main


def test_nothing_points_outside_the_repository_or_at_a_package_index() -> None:
    # Written in pieces, so that this file does not contain what it looks for.
    unwanted = [
        "/".join(parts)
        for parts in (("..", "shared"), ("", "work", "shared"), ("", "work", "main"), ("", "tmp", "spec"))
    ] + [
        ".".join(parts)
        for parts in (("pypi", "org"), ("pythonhosted", "org"), ("repo1", "maven"), ("npmjs", "org"), ("docker", "io"))
    ]
    found = []
    for path in map(ROOT.joinpath, source_files()):
        text = path.read_bytes().decode("utf-8", errors="replace")
        found += [f"{path.relative_to(ROOT)}: {word}" for word in unwanted if word in text]
    assert found == []


def test_every_module_opens_with_a_sentence_on_what_it_is_for() -> None:
    for path in map(ROOT.joinpath, source_files()):
        source = path.read_text(encoding="utf-8") if path.suffix == ".py" else ""
        if source:  # an empty __init__.py only marks a folder
            assert re.match(r'(#!.*\n)?r?"""\S', source), path.relative_to(ROOT)


def test_no_module_has_a_name_that_says_nothing() -> None:
    for path in map(ROOT.joinpath, source_files()):
        if path.suffix == ".py":
            assert path.stem not in {
                "utils",
                "util",
                "helpers",
                "helper",
                "manager",
                "common",
                "misc",
                "aux",
                "data",
            }, path
