"""`shoal audit`: reads a folder of releases and, if given, the private files, and hands both to the auditor.

Files are read here in plain ways of their own: the auditor takes nothing on trust, not even from `shoal replay`. Only
events that are not lines of JSON are read by the reader of their format, as replay does. One release is in memory at a
time. What cannot be read at all is wrong input; what can be read but is not as promised is a finding.
"""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from shoal.core.audit import Auditor, Report, Stored, Truth
from shoal.core.audit.auditor import Members
from shoal.core.audit.finding import Promise
from shoal.core.audit.reading.manifest import READABLE_FORMAT
from shoal.core.audit.reading.strictjson import parse
from shoal.core.audit.reading.view import Line
from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.files.event_lines import BY_NAME, read_lines
from shoal.streams.files.formats import find_reader
from shoal.streams.files.formats.external import read_external
from shoal.streams.files.formats.format import FormatChoice
from shoal.streams.files.rejects import rejects_beside

PRIVATE_FILE = "a private file lies in the folder that is published"
OTHER_TABLES = "rows.csv or values.csv do not say what the records say"
NO_TABLES = "a release lacks rows.csv or values.csv"
TABLES = "a release that holds only what changed has rows.csv or values.csv"
MISSING = "the events make a release that is not published"

_RELEASE = re.compile(r"release-([0-9]+)", re.ASCII)
_PRIVATE = ("*members.jsonl", "*cohorts.json")

Table = Counter[tuple[str, ...]]  # the lines of a spreadsheet, in any order


class Watcher(Protocol):
    """Shows progress."""

    def begin(self, releases: int) -> None: ...

    def audited(self, number: int) -> None: ...


def audit(
    policy: Policy,
    out: Path,
    private: Path | None,
    events: Sequence[Path],
    key: bytes,
    watcher: Watcher,
    *,
    external: Sequence[Path] = (),
    choice: FormatChoice = BY_NAME,
    previous: Sequence[Policy] = (),
) -> Report:
    """Audits a folder of releases. `choice` is the format of `events`, `previous` are the policies that the table had
    before this one, the first first. Raises `InputError` for what cannot be read.
    """
    folders = list_releases(out)
    auditor = Auditor(policy, previous)
    watcher.begin(len(folders))
    for found in (entry for pattern in _PRIVATE for entry in out.rglob(pattern)):
        auditor.findings.say(Promise.CONTRACT, PRIVATE_FILE, folders[0][0], found.name)
    shelf = _Shelf(policy, auditor)
    if private is None:
        for number, folder in folders:
            auditor.see(shelf.take(number, folder))
            watcher.audited(number)
    else:
        lines, is_panel = _event_lines(policy, events, choice)
        truth = _audit_privately(policy, shelf, folders, private, lines, watcher, external)
        rejects = rejects_beside(out)
        if len(events) == 1 and not is_panel and rejects.exists():
            _compare_rejects(auditor, rejects, set(truth.rejected))
    return auditor.report(key)


def _other_lines(policy: Policy, path: Path) -> Iterator[bytes]:
    """External events in lines, or those of a folder of releases or a CSV of generalized rows."""
    if path.is_dir() or path.suffix.lower() == ".csv":
        return (json.dumps(line.event).encode() for line in read_external(policy, path, path.name))
    return _lines(path)


def list_releases(out: Path) -> list[tuple[int, Path]]:
    """The folders of releases by number; two with one number are both listed. Raises `InputError`."""
    if not out.is_dir():
        raise InputError(f"{out} is not a folder of releases.")
    found = [(int(m[1]), entry) for entry in out.iterdir() if entry.is_dir() and (m := _RELEASE.fullmatch(entry.name))]
    if not found:
        raise InputError(f"{out} has no releases in it.")
    return sorted(found)


def _audit_privately(
    policy: Policy,
    shelf: "_Shelf",
    folders: list[tuple[int, Path]],
    private: Path,
    events: Iterable[bytes],
    watcher: Watcher,
    external: Sequence[Path],
) -> Truth:
    """Folds the events; at each release they make, the next folder is checked against the table as it is then.

    What is in `external` counts as published by others before the first release.
    """
    truth, made = Truth(policy, shelf.auditor.epochs.known), 0
    for path in external:
        for number, line in enumerate(_other_lines(policy, path), start=1):
            if line.strip() and not truth.take_other(line):
                raise InputError(f"{path}, line {number}, is not an external event under this policy.")
    remaining = iter(folders)
    following = next(remaining, None)
    for line in events:
        asked = truth.take(line)
        if asked is None:
            continue
        made += 1
        truth.cut(made)
        if following is None:
            shelf.auditor.findings.say(Promise.G6, MISSING, made)
            continue
        if following[0] > made:
            continue  # a gap, which the chain shows
        path = private / f"release-{made:04}.members.jsonl"
        members: Members = read_rows(path) if policy.values == "lasting" else read_members(path)
        cohorts = read_cohorts(private / f"release-{made:04}.cohorts.json", bool(policy.sensitive.permanent))
        while following is not None and following[0] <= made:
            shelf.auditor.see(shelf.take(*following), members, truth, asked.at, cohorts)
            watcher.audited(made)
            following = next(remaining, None)
        truth.known = shelf.auditor.epochs.known
    if following is not None:
        raise InputError(
            f"the events make {made} releases, but there is a release {following[0]}; give all events that led to it."
        )
    return truth


class _Shelf:
    """Takes releases out of their folders, and checks that each folder holds one content only."""

    def __init__(self, policy: Policy, auditor: Auditor) -> None:
        self.auditor = auditor
        self._header = ("group", "cell", *(attribute.name for attribute in policy.attributes))

    def take(self, number: int, folder: Path) -> Stored:
        manifest = _read(folder / "manifest.json")
        check_format(folder, manifest)
        parts = _parts(manifest)
        gone = b"" if parts is None else _read(folder / "gone.jsonl")
        stored = Stored(number, _read(folder / "cells.jsonl"), _read(folder / "groups.jsonl"), manifest, gone)
        is_full = all(isinstance(part, dict) and part.get("full") is True for part in parts or ())
        for name, make in (("rows.csv", self._rows), ("values.csv", self._values)):
            path, say = folder / name, self.auditor.findings.say
            if path.exists() != is_full:
                say(Promise.CONTRACT, NO_TABLES if is_full else TABLES, number, name)
            elif is_full and not _is_same_table(path, make, stored):
                say(Promise.G6, OTHER_TABLES, number, name)
        return stored

    def _rows(self, stored: Stored) -> Table:
        found: Table = Counter({self._header: 1})
        cells = _records(stored.cells)
        regions = {cell["cell"]: tuple(_region_text(part) for part in cell["region"].values()) for cell in cells}
        for record in _records(stored.groups):
            for cell, rows in record["cells"].items():
                count = len(rows) if isinstance(rows, list) else rows
                found[record["group"], cell, *regions[cell]] += count
        return found

    def _values(self, stored: Stored) -> Table:
        found: Table = Counter({("group", "value", "count"): 1})
        for record in _records(stored.groups):
            for label, count in record["sensitive"].items():
                found[record["group"], label, str(count)] += 1
        return found


def _is_same_table(path: Path, make: Callable[[Stored], Table], stored: Stored) -> bool:
    try:
        shown = Counter(tuple(row) for row in csv.reader(io.StringIO(_read(path).decode(), newline="")))
        return shown == make(stored)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, csv.Error):
        return False  # records that cannot be read have no table; what is wrong with them is said elsewhere


def _records(text: bytes) -> Iterator[Any]:
    return map(parse, text.split(b"\n")[:-1])


def _parts(manifest: bytes) -> list[Any] | None:
    """What a manifest says of its shards, None if it says nothing."""
    try:
        found: Any = parse(manifest)
    except (ValueError, RecursionError):
        return None
    return found["shards"] if isinstance(found, dict) and isinstance(found.get("shards"), list) else None


def check_format(folder: Path, manifest: bytes) -> None:
    """Raises `InputError` for a release of another format; what cannot be read at all is left to the audit."""
    try:
        found: Any = parse(manifest)
    except (ValueError, RecursionError):
        return
    written = found.get("format", READABLE_FORMAT) if isinstance(found, dict) else READABLE_FORMAT
    if written != READABLE_FORMAT:
        name = written if type(written) is int else "unknown"
        raise InputError(
            f"{folder} is in format {name}; this audit reads format {READABLE_FORMAT} only, so audit it with the "
            "version of Shoal that wrote it, or publish it again with this one."
        )


def _region_text(part: dict[str, Any]) -> str:
    if "nodes" in part:
        return "|".join(part["nodes"])
    low, end = part["min"], part.get("max", part.get("below"))
    if isinstance(low, int):
        return f"{low}-{end}"
    first, last = (repr(number).removesuffix(".0") for number in (low, end))
    return f"[{first},{last}{']' if 'max' in part else ')'}"


def read_members(path: Path) -> list[tuple[str, str, str]]:
    """The lines of a membership file, as (id, group, cell). Raises `InputError`, which names the line only."""
    return [(line.person, line.group, line.cell) for line in _member_lines(path, has_values=False)]


def read_rows(path: Path) -> list[Line]:
    """The lines of a lasting table's membership file, one per row, each with the value that it stands for or null."""
    return list(_member_lines(path, has_values=True))


def _member_lines(path: Path, *, has_values: bool) -> Iterator[Line]:
    for number, raw in enumerate(_read(path).split(b"\n"), start=1):
        if not raw.strip():
            continue
        try:
            member: Any = parse(raw)
            line = Line(member["id"], member["group"], member["cell"], member["value"] if has_values else None)
        except (ValueError, RecursionError, TypeError, KeyError):
            line = None
        is_right = line is not None and all(isinstance(text, str) for text in line[:3])
        if line is None or not is_right or not isinstance(line.value, str | None):
            needed = "id, group, cell and value" if has_values else "id, group and cell"
            raise InputError(f"{path}, line {number}, is not a member: it must have {needed}.")
        yield line


def read_cohorts(path: Path, is_needed: bool) -> dict[str, list[list[str]]]:
    """The cohorts of a release: by permanent value, lists of owners. Raises `InputError`, which names the file only.

    Where there are no permanent values the file may be missing.
    """
    if not is_needed and not path.exists():
        return {}
    try:
        found: Any = parse(_read(path))
        is_right = isinstance(found, dict) and all(
            isinstance(cohorts, list)
            and all(isinstance(cohort, list) and all(isinstance(p, str) for p in cohort) for cohort in cohorts)
            for cohorts in found.values()
        )
    except (ValueError, RecursionError):
        is_right = False
    if not is_right:
        raise InputError(f"{path} does not list cohorts: it must have, for each permanent value, lists of owners.")
    return dict(found)


def _compare_rejects(auditor: Auditor, path: Path, rejected: set[int]) -> None:
    """Says if replay rejected other events than the auditor would: then the two disagree about what is true."""
    lines: list[int] = []
    for raw in _read(path).split(b"\n")[:-1]:
        try:
            reject: Any = parse(raw)
            lines.append(int(reject["line"]))
        except (ValueError, RecursionError, TypeError, KeyError):
            return
    if lines != sorted(set(lines)):
        return  # several runs, each of which counted lines from 1
    for was, verb, other in (
        ("rejected", "count", set(lines) - rejected),
        ("taken", "do not count", rejected - set(lines)),
    ):
        if len(other) == 1:
            verb = {"count": "counts", "do not count": "does not count"}[verb]
            auditor.note(f"1 event was {was} that {verb} by the contract, on line {min(other):,}.")
        elif other:
            first = f"the first of them on line {min(other):,}"
            auditor.note(f"{len(other):,} events were {was} that {verb} by the contract, {first}.")


def _event_lines(policy: Policy, paths: Sequence[Path], choice: FormatChoice) -> tuple[Iterator[bytes], bool]:
    """The events of files as lines of JSON, under the numbers they have in the file, and whether they are a panel."""
    names = [str(path) for path in paths]
    reader = find_reader(names[0], policy, choice, *names[1:])
    lines = (line for path in paths for line in _lines(path)) if reader.is_json else read_lines(policy, names, choice)
    return lines, reader.is_panel


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            for line in file:
                yield line.removesuffix(b"\n")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or 'unknown reason'}.") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or 'unknown reason'}.") from None
