"""A folder of releases: `release-0001/` and so on, each with the published bytes and two tables for a spreadsheet.

A release appears whole or not at all, and a number is only ever used for one content:

1. `stage` writes everything to `.release-0001.partial/`, which readers do not look at, and syncs it to the disk;
2. a caller that keeps a ledger saves it;
3. `show` renames the folder to `release-0001/`.

After a crash between 2 and 3, `finish` shows the staged folder that has the ledger's own number. It removes a staged
folder of any other number: nothing was charged for it, and nobody has seen it.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from shoal.streams.errors import GuaranteeError, InputError

GROUPS, MANIFEST, ROWS, VALUES = "groups.jsonl", "manifest.json", "rows.csv", "values.csv"


class ReleaseFiles(NamedTuple):
    """A release read back from its folder: its number, and its bytes as they were published."""

    number: int
    records: tuple[bytes, ...]
    manifest: bytes


def release_name(number: int) -> str:
    """The name of a release's folder, with enough digits to sort well for some years."""
    return f"release-{number:04}"


class ReleaseFolder:
    """The folder OUT. `attributes` are the policy's, in its order: they are the header of `rows.csv`."""

    def __init__(self, path: Path, attributes: Sequence[str]) -> None:
        self.path = path
        self._attributes = tuple(attributes)

    def final(self, number: int) -> Path:
        return self.path / release_name(number)

    def staged(self, number: int) -> Path:
        return self.path / f".{release_name(number)}.partial"

    def stage(self, number: int, records: Sequence[bytes], manifest: bytes) -> None:
        """Writes a release where no reader looks. Raises `GuaranteeError` if another release has its number already."""
        final, staged = self.final(number), self.staged(number)
        if final.exists() and not self._holds(final, records, manifest):
            raise GuaranteeError(
                f"{final} exists already with other content, and a number is never used for two releases; "
                "nothing was written."
            )
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir(parents=True)
        rows, values = tables(records, self._attributes)
        for name, content in (
            (GROUPS, b"".join(record + b"\n" for record in records)),
            (MANIFEST, manifest),
            (ROWS, rows),
            (VALUES, values),
        ):
            write_synced(staged / name, content)
        sync_folder(staged)

    def show(self, number: int) -> None:
        """Makes a staged release visible. If it is visible already, with the same bytes, removes the staged copy."""
        final, staged = self.final(number), self.staged(number)
        if final.exists():
            shutil.rmtree(staged, ignore_errors=True)
            return
        staged.rename(final)
        sync_folder(self.path)

    def discard(self, number: int) -> None:
        """Removes a staged release that will not be shown."""
        shutil.rmtree(self.staged(number), ignore_errors=True)

    def finish(self, number: int, manifest_digest: str | None) -> None:
        """After a restart: shows the release that was charged last, if that is not done, and removes other staged ones.

        Raises `GuaranteeError` if the folder has another release under that number than the one that was charged.
        """
        staged = self.staged(number)
        if number and staged.exists() and not self.final(number).exists() and _digest(staged) == manifest_digest:
            self.show(number)
        if number and self.final(number).exists() and _digest(self.final(number)) != manifest_digest:
            raise GuaranteeError(
                f"{self.final(number)} is not the release that the state was charged for, and a number is never used "
                "for two releases; nothing was written."
            )
        for leftover in self.path.glob(".release-*.partial"):
            shutil.rmtree(leftover, ignore_errors=True)

    def last_time(self, number: int) -> str | None:
        """The last time that one of the first `number` releases has named, None if none has or they are not here."""
        for earlier in range(number, 0, -1):
            manifest = _bytes_of(self.final(earlier) / MANIFEST)
            found = None if manifest is None else json.loads(manifest).get("published_at")
            if found is not None:
                return str(found)
        return None

    def _holds(self, folder: Path, records: Sequence[bytes], manifest: bytes) -> bool:
        groups = b"".join(record + b"\n" for record in records)
        return _bytes_of(folder / MANIFEST) == manifest and _bytes_of(folder / GROUPS) == groups


def read_releases(path: Path) -> Iterator[ReleaseFiles]:
    """Yields the releases of a folder in order. Raises `InputError` if one cannot be read."""
    numbers = sorted(
        int(match[1]) for inner in path.iterdir() if (match := re.fullmatch(r"release-(\d{4,})", inner.name))
    )
    for number in numbers:
        yield read_files(path, number)


def read_files(path: Path, number: int) -> ReleaseFiles:
    """One release of a folder. Raises `InputError` if it cannot be read."""
    folder = path / release_name(number)
    groups, manifest = _bytes_of(folder / GROUPS), _bytes_of(folder / MANIFEST)
    if groups is None or manifest is None:
        raise InputError(f"{folder} has no {GROUPS if groups is None else MANIFEST}.")
    return ReleaseFiles(number, tuple(groups.split(b"\n")[:-1]), manifest)


def tables(records: Iterable[bytes], attributes: Sequence[str]) -> tuple[bytes, bytes]:
    """`rows.csv` (one line per row) and `values.csv` of a release."""
    rows, values = [csv_line("group", "cell", *attributes)], [csv_line("group", "value", "count")]
    regions: dict[str, list[str]] = {}
    for record in records:
        group = json.loads(record)
        for cell in group["cells"]:
            region = regions.get(cell["cell"])
            if region is None:
                region = regions[cell["cell"]] = [region_text(cell["region"][name]) for name in attributes]
            rows.append(csv_line(group["group"], cell["cell"], *region) * cell["rows"])
        values.extend(csv_line(group["group"], value, str(count)) for value, count in group["sensitive"].items())
    return "".join(rows).encode(), "".join(values).encode()


def region_text(part: Mapping[str, Any]) -> str:
    """One attribute of a region as people write it: `20-34`, `[50,72.5)` or `2043*|2044*`."""
    if "nodes" in part:
        return "|".join(part["nodes"])
    low = part["min"]
    if isinstance(low, int):
        return f"{low}-{part['max']}"
    if "below" in part:
        return f"[{_plain(low)},{_plain(part['below'])})"
    return f"[{_plain(low)},{_plain(part['max'])}]"


def csv_line(*fields: str) -> str:
    """One line of CSV, with quotes only where they are needed (RFC 4180, with the line feed of Unix)."""
    return ",".join(_quoted(field) for field in fields) + "\n"


def write_synced(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Writes a file and waits until the disk has it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with open(descriptor, "wb", buffering=0) as file:  # noqa: PTH123 - only a descriptor can be given a mode
        view = memoryview(content)
        while view:
            view = view[file.write(view) :]
        os.fsync(descriptor)


def sync_folder(path: Path) -> None:
    """Waits until the disk has the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _quoted(field: str) -> str:
    if "," in field or '"' in field or "\n" in field or "\r" in field:
        return '"' + field.replace('"', '""') + '"'
    return field


def _plain(number: float) -> str:
    return repr(number).removesuffix(".0")


def _bytes_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _digest(folder: Path) -> str | None:
    manifest = _bytes_of(folder / MANIFEST)
    return None if manifest is None else sha256(manifest).hexdigest()
