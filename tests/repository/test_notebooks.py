"""The notebooks in examples/ run from the first cell to the last, and print what they show."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.notebook import NOTEBOOKS, outputs, run
from tests.support.root import ROOT


def copy(path: Path, folder: Path) -> Path:
    """The notebook and the examples that it reads, where a newcomer has them: nothing is written to the repository."""
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("*.gz"))
    return folder / path.relative_to(ROOT)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = copy(path, tmp_path)
    monkeypatch.chdir(mine.parent)
    ran = list(run(mine))
    assert len(ran) >= 5
    for cell, printed in ran:
        assert outputs(printed) == cell["outputs"], "`python -m tests.support.notebook` writes what it prints now"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_one_that_jupyter_opens(path: Path) -> None:
    book = json.loads(path.read_text(encoding="utf-8"))
    assert (book["nbformat"], book["metadata"]["kernelspec"]["name"]) == (4, "python3")
    ids = [cell["id"] for cell in book["cells"]]
    assert len(set(ids)) == len(ids)
    for number, cell in enumerate(one for one in book["cells"] if one["cell_type"] == "code"):
        assert cell["execution_count"] == number + 1
    explained = [cell for cell in book["cells"] if cell["cell_type"] == "markdown"]
    assert len(explained) >= 5


def test_a_cell_that_prints_something_else_is_noticed(tmp_path: Path) -> None:
    assert NOTEBOOKS
    path = tmp_path / "wrong.ipynb"
    cell = {"cell_type": "code", "id": "a", "source": ["print(1)"], "outputs": outputs("2\n")}
    path.write_text(json.dumps({"cells": [cell]}))
    ((ran, printed),) = run(path)
    assert outputs(printed) != ran["outputs"]
