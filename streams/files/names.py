"""The ids behind handles: only `shoal replay --audit` keeps them, in its private folder, for the auditor.

The engine knows people by their handles (core/randomness.py), and so does the state file. The files of the audit have
ids. `ids.jsonl` beside them, a line a person, lets the next run go on: each release adds the people it meets first.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from shoal.core.randomness import Keyed
from shoal.core.release import Release
from shoal.streams.errors import InputError
from shoal.streams.files.fresh_file import PRIVATE, open_private, write_fresh

IDS = "ids.jsonl"


class Names:
    """The ids of everybody a run has met, by handle."""

    def __init__(self, folder: Path, keyed: Keyed) -> None:
        self._path, self._keyed = folder / IDS, keyed
        self._ids: dict[str, str] = {}
        self._met: dict[str, str] = {}  # since the last release, by events that may have been rejected

    def open(self, known: Collection[str]) -> None:
        """Read the file. Raises InputError if it does not name everybody who is `known` by handle."""
        if known and self._path.exists():
            text = self._path.read_text(encoding="utf-8", errors="replace")
            whole = text[: text.rfind("\n") + 1]
            if whole != text:  # a crash has cut the last line
                write_fresh(self._path, whole.encode(), PRIVATE)
            lines = map(json.loads, whole.splitlines())
            self._ids = {line["handle"]: line["id"] for line in lines}
        elif not known:
            self._path.unlink(missing_ok=True)  # of a series that began anew
        if missing := sum(handle not in self._ids for handle in known):
            raise InputError(
                f"{self._path} does not name {missing} of the people in --state, which has no ids: give the --audit "
                "folder of the earlier runs, or begin a new series."
            )

    def handle(self, person_id: str) -> str:
        """What a person is called, remembered until the next release."""
        handle = self._keyed.handle(person_id)
        self._met[handle] = person_id
        return handle

    def write(self, people: Iterable[str]) -> None:
        """Write down those of the people of a window who are not in the file, and forget everybody else met."""
        new = {person: self._met[person] for person in people if person not in self._ids}
        self._met.clear()
        self._ids |= new
        lines = (json.dumps({"handle": handle, "id": id_}, ensure_ascii=False) + "\n" for handle, id_ in new.items())
        with open_private(self._path) as file:
            file.write("".join(lines).encode())

    @property
    def ids(self) -> Mapping[str, str]:
        """The ids of everybody in the file, by handle."""
        return self._ids

    def named(self, release: Release) -> Release:
        """A release whose private parts have ids in place of handles."""
        members, ids = release.members, self._ids
        cohorts = {
            value: [[ids[owner] for owner in cohort] for cohort in cohorts]
            for value, cohorts in release.cohorts.items()
        }
        return replace(
            release,
            members=replace(members, ids=lambda: [ids[handle] for handle in members.ids()]),
            cohorts=cohorts,
        )
