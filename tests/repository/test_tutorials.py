"""The tutorials are followed step by step: every command succeeds, and Python prints what the page says."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from shoal.streams.cli import main
from shoal.streams.cli.demo import TUTORIALS as NAMED
from tests.support.root import ROOT

_BLOCK = re.compile(r"^```(sh|python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ON_SERVICES = {"data-engineer.md"}  # tests/integration/test_hospital.py follows it
TUTORIALS = sorted(path.name for path in (ROOT / "docs" / "tutorials").glob("*.md"))


def follow(page: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Runs the blocks of a page in order and returns the commands; `text` is what the Python before it printed."""
    names: dict[str, Any] = {}
    ran, printed = [], ""
    for language, block in _BLOCK.findall(page):
        if language == "text":
            assert printed == block
        elif language == "python":
            capsys.readouterr()
            exec(compile(block, "tutorial", "exec"), names)
            printed = capsys.readouterr().out
        else:
            for line in block.replace("\\\n", " ").splitlines():
                program, *words = shlex.split(line, comments=True)
                assert program in ("shoal", "pip", "python3", "make"), line
                if program == "python3":
                    subprocess.run(["bash", "-c", line], check=True)
                if program == "shoal":
                    assert main(words) == 0, line
                    ran.append(words[0])
    return ran


@pytest.mark.parametrize("name", [name for name in TUTORIALS if name not in ON_SERVICES])
def test_a_tutorial_can_be_followed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for example in ("ward", "panel"):
        shutil.copytree(ROOT / "examples" / example, tmp_path / "examples" / example)
    monkeypatch.chdir(tmp_path)
    assert len(follow((ROOT / "docs" / "tutorials" / name).read_text(encoding="utf-8"), capsys)) >= 3


@pytest.mark.parametrize(
    "page", ["```sh\nshoal export nowhere --to csv --out x\n```\n", "```python\n1\n```\n```text\n1\n```\n"]
)
def test_a_step_that_fails_or_prints_something_else_is_noticed(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError):
        follow(page, capsys)


def test_every_tutorial_is_in_the_index_and_named_by_the_demo() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert TUTORIALS
    for name in TUTORIALS:
        assert f"(tutorials/{name})" in index
        assert f"docs/tutorials/{name}" in NAMED


def written(page: str) -> set[str]:
    """The folders and files that a page's commands write."""
    named = re.findall(r"--(?:out|audit|state) ([\w./-]+)|> ([\w./-]+)|copytree\(\"[^\"]+\", \"([^\"]+)\"", page)
    return {name for names in named for name in names if name} - {"worker.log"}


def test_no_two_tutorials_write_to_one_place_so_they_can_be_followed_side_by_side() -> None:
    pages = {name: ROOT / "docs" / "tutorials" / name for name in TUTORIALS} | {"README.md": ROOT / "README.md"}
    seen: dict[str, str] = {}
    for name, path in pages.items():
        places = written("".join(body for _, body in _BLOCK.findall(path.read_text())))
        assert places, name
        for place in places:
            assert place not in seen, (place, name, seen[place])
            seen[place] = name
