"""Runs a notebook without Jupyter: its code cells in order, in one namespace, in its own folder.

`python -m tests.support.notebook` runs those in examples/, and writes what their cells print into them.
"""

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.root import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("**/*.ipynb"))


def run(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Yields each code cell of a notebook with what it printed. The working directory must be the notebook's."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
            yield cell, printed.getvalue()


def outputs(printed: str) -> list[dict[str, Any]]:
    """What a cell that printed this has as its outputs."""
    text = printed.splitlines(keepends=True)
    return [{"name": "stdout", "output_type": "stream", "text": text}] if text else []


def main() -> None:
    for path in NOTEBOOKS:
        book = json.loads(path.read_text(encoding="utf-8"))
        with contextlib.chdir(path.parent):
            ran = {cell["id"]: printed for cell, printed in run(path)}
        for cell in book["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"] = outputs(ran[cell["id"]])
        path.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
