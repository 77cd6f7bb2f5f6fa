"""Where the repository is, and which files belong to it."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def source_files(*under: str) -> list[str]:
    """The files of the source below these folders, or all of them: tracked, or about to be. By path from the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *under],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode != 0:
        pytest.skip("this is not a git checkout, so which files belong to it is unknown")
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
