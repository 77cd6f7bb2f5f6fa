"""This version of Shoal under another engine's name: what it is to a table once the engine's version is raised."""

from pathlib import Path
from typing import Final

ENGINE: Final = "99.0"


def variables(folder: Path) -> dict[str, str]:
    """What a process has to find in its environment to be that version; Python reads the file when it starts."""
    (folder / "sitecustomize.py").write_text(f"import shoal.core.state\n\nshoal.core.state.ENGINE = {ENGINE!r}\n")
    return {"PYTHONPATH": str(folder)}
