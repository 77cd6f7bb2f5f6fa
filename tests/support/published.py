"""Releases as they lie in a folder."""

from pathlib import Path


def published_lines(folder: Path) -> bytes:
    """Every record of a release but its manifest, a record a line; of a plain one `content` is the digest of that."""
    files = [folder / name for name in ("cells.jsonl", "groups.jsonl", "gone.jsonl")]
    return b"".join(path.read_bytes() for path in files if path.exists())
