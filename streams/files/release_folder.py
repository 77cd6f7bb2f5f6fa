"""A folder of releases: `release-0001/` and so on, each with the published bytes and two tables for a spreadsheet.

A release that is not plain has a file of what is gone, too, and the two tables only if it is in full.

A release appears whole or not at all, and a number is only ever used for one content:

1. `stage` writes everything to `.release-0001.partial/`, which readers do not look at, and syncs it to the disk;
2. a caller that keeps a ledger saves it;
3. `show` renames the folder to `release-0001/`.

After a crash between 2 and 3, `finish` shows the staged folder that has the ledger's own number. It removes a staged
folder of any other number: nothing was charged for it, and nobody has seen it.
"""

import filecmp
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from shoal.core.published.manifest import Manifest, PublishedRelease
from shoal.streams.errors import GuaranteeError, InputError
from shoal.streams.files.fresh_file import fresh_file, write_fresh
from shoal.streams.published import checked_release

CELLS, GROUPS, GONE, MANIFEST = "cells.jsonl", "groups.jsonl", "gone.jsonl", "manifest.json"
ROWS, VALUES = "rows.csv", "values.csv"
COPIED_AT_ONCE = 1 << 20  # bytes


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

    def stage(self, release: PublishedRelease) -> None:
        """Writes a release where no reader looks. Raises `GuaranteeError` if another release has its number already."""
        final, staged, shards = self.final(release.number), self.staged(release.number), release.head.shards
        published = {CELLS: _lines(release.cells), GROUPS: _lines(release.groups), MANIFEST: release.manifest}
        if shards is not None:
            published[GONE] = _lines(release.gone)
        if final.exists() and any(_bytes_of(final / name) != content for name, content in published.items()):
            raise self._used_twice(final)
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir(parents=True)
        files = dict(published)
        if all(part["full"] for part in shards or ()):
            files[ROWS], files[VALUES] = tables(release.cells, release.groups, self._attributes)
        for name, content in files.items():
            write_fresh(staged / name, content)
        sync_folder(staged)

    def stage_parts(self, number: int, parts: Mapping[str, Sequence[Path]], manifest: bytes, *, is_full: bool) -> None:
        """The same for a release whose records lie in files, part after part; the two tables lack their headers."""
        final, staged = self.final(number), self.staged(number)
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir(parents=True)
        heads = {ROWS: ("group", "cell", *self._attributes), VALUES: ("group", "value", "count")}
        for name in (CELLS, GROUPS, GONE, *(heads if is_full else ())):
            with fresh_file(staged / name) as file:
                if name in heads:
                    file.write(csv_line(*heads[name]).encode())
                for part in parts[name]:
                    with part.open("rb") as source:
                        shutil.copyfileobj(source, file, COPIED_AT_ONCE)
        write_fresh(staged / MANIFEST, manifest)
        sync_folder(staged)
        published = (CELLS, GROUPS, GONE, MANIFEST)
        if final.exists() and any(not _is_same(final / name, staged / name) for name in published):
            self.discard(number)
            raise self._used_twice(final)

    def _used_twice(self, final: Path) -> GuaranteeError:
        return GuaranteeError(
            f"{final} exists already with other content, and a number is never used for two releases; "
            "nothing was written."
        )

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


def read_releases(path: Path) -> Iterator[PublishedRelease]:
    """Yields the releases of a folder in order. Raises `InputError` if one cannot be read."""
    for number in release_numbers(path):
        yield read_files(path, number)


def release_numbers(path: Path) -> list[int]:
    """The numbers of the releases in a folder, in order."""
    matches = (re.fullmatch(r"release-(\d{4,})", inner.name) for inner in path.iterdir())
    return sorted(int(match[1]) for match in matches if match)


def read_files(path: Path, number: int) -> PublishedRelease:
    """One release of a folder, by itself. Raises `InputError` if it cannot be read."""
    folder = path / release_name(number)
    head = read_head(folder)
    names = (CELLS, GROUPS) if head.shards is None else (CELLS, GROUPS, GONE)
    cells, groups, *gone = (tuple(_content(folder, name).split(b"\n")[:-1]) for name in names)
    return PublishedRelease(number, cells, groups, head, gone[0] if gone else ())


def read_head(folder: Path) -> Manifest:
    """The manifest in the folder of one release. Raises `InputError` if it is missing, or in another format."""
    head = Manifest(_content(folder, MANIFEST))
    with checked_release():
        head.check_format(f"{folder} is")
    return head


def table_of(release: PublishedRelease) -> str:
    """The table that a release says it is of. Raises `InputError` if its manifest cannot be read."""
    table = release.meaning.get("table")
    if not isinstance(table, str):
        raise InputError(f"release {release.number} has a manifest that cannot be read.")
    return table


def tables(cells: Iterable[bytes], groups: Iterable[bytes], attributes: Sequence[str]) -> tuple[bytes, bytes]:
    """`rows.csv` (one line per row) and `values.csv` of a release."""
    rows, values = [csv_line("group", "cell", *attributes)], [csv_line("group", "value", "count")]
    regions = read_regions(cells)
    texts = {name: [region_text(region[attribute]) for attribute in attributes] for name, region in regions.items()}
    for record in groups:
        group = json.loads(record)
        for cell, shown in group["cells"].items():
            rows.append(csv_line(group["group"], cell, *texts[cell]) * row_count(shown))
        values.extend(csv_line(group["group"], value, str(count)) for value, count in group["sensitive"].items())
    return "".join(rows).encode(), "".join(values).encode()


def read_regions(cells: Iterable[bytes]) -> dict[str, dict[str, Any]]:
    """The region of each cell of a release, by the cell's id."""
    return {cell["cell"]: cell["region"] for cell in map(json.loads, cells)}


def row_count(shown: int | list[str]) -> int:
    """How many rows of a group are in one cell, where its record has their number or their case ids."""
    return shown if isinstance(shown, int) else len(shown)


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


def sync_folder(path: Path) -> None:
    """Waits until the disk has the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lines(records: Sequence[bytes]) -> bytes:
    return b"".join([record + b"\n" for record in records])


def _quoted(field: str) -> str:
    if "," in field or '"' in field or "\n" in field or "\r" in field:
        return '"' + field.replace('"', '""') + '"'
    return field


def _plain(number: float) -> str:
    return repr(number).removesuffix(".0")


def _content(folder: Path, name: str) -> bytes:
    content = _bytes_of(folder / name)
    if content is None:
        raise InputError(f"{folder} has no {name}.")
    return content


def _bytes_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and filecmp.cmp(one, other, shallow=False)


def _digest(folder: Path) -> str | None:
    manifest = _bytes_of(folder / MANIFEST)
    return None if manifest is None else sha256(manifest).hexdigest()
