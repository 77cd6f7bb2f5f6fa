"""Releases as they lie in a folder."""

from pathlib import Path


def published_lines(folder: Path) -> bytes:
    """Every record of a release but its manifest, a record a line: what the manifest's `content` is the digest of."""
    return (folder / "cells.jsonl").read_bytes() + (folder / "groups.jsonl").read_bytes()
