"""The newest release as Parquet files: a folder for each release, and `latest`, a link to the newest.

A release is one change of a link:

1. the tables, and `sink.json`, which says where the topic goes on, are written to `.release-0007.partial/`;
2. that folder becomes `release-0007/`;
3. `latest` points to it;
4. folders older than the one before it are removed: a reader may still be reading that one.

Only `latest` says what is kept. What a killed sink left behind is written again or removed.
"""

import fcntl
import json
import re
import shutil
from pathlib import Path
from typing import Any, Final

from shoal.streams.errors import InputError
from shoal.streams.faults import crash_point
from shoal.streams.files.export import ParquetFolder
from shoal.streams.files.extra import import_extra
from shoal.streams.files.fresh_file import write_fresh
from shoal.streams.files.release_folder import release_name, sync_folder
from shoal.streams.files.tidy import Layout, tidy
from shoal.streams.kafka.release_reader import Place
from shoal.streams.sink.newest import Delivery, Kept, is_kept

LATEST: Final = "latest"
_STATE: Final = "sink.json"


class ParquetNewest:
    """One folder, for one sink at a time: it is locked until the sink is closed or its process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._parquet = import_extra("pyarrow.parquet")
        path.mkdir(parents=True, exist_ok=True)
        self._lock = (path / ".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise InputError(f"another sink is writing to {path}; end it, or choose another folder.") from None

    def kept(self) -> Kept | None:
        try:
            found = json.loads((self._path / LATEST / _STATE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return Kept(found["table"], Place(found["release"], found["manifest"], found["next_offset"]))

    def keep(self, delivery: Delivery) -> None:
        held = self.kept()
        if is_kept(held, delivery):
            return
        name = release_name(delivery.release.number)
        staged, final = self._path / f".{name}.partial", self._path / name
        for leftover in (staged, final):
            shutil.rmtree(leftover, ignore_errors=True)
        self._write(staged, delivery, held)  # 1
        crash_point("sink.1")
        staged.rename(final)  # 2
        sync_folder(self._path)
        crash_point("sink.2")
        self._point_to(name)  # 3
        crash_point("sink.3")
        self._remove_old({name} if held is None else {name, release_name(held.place.number)})  # 4
        crash_point("sink.4")

    def close(self) -> None:
        self._lock.close()

    def _write(self, folder: Path, delivery: Delivery, held: Kept | None) -> None:
        layout = Layout([delivery.files])
        writer = ParquetFolder(folder, layout.tables)
        for table, columns in tidy(delivery.files, layout).items():
            if table != "releases":
                writer.add(table, columns)
        if held is not None:
            writer.add("releases", self._earlier_releases())
        writer.add("releases", delivery.releases_after(0 if held is None else held.place.number))
        writer.close()
        kept = delivery.kept
        said = {"table": kept.table, "release": kept.place.number, "manifest": kept.place.digest}
        write_fresh(folder / _STATE, json.dumps({**said, "next_offset": kept.place.next_offset}).encode())
        sync_folder(folder)

    def _earlier_releases(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = self._parquet.read_table(self._path / LATEST / "releases.parquet").to_pydict()
        return found

    def _point_to(self, name: str) -> None:
        link = self._path / f".{LATEST}.partial"
        link.unlink(missing_ok=True)
        link.symlink_to(name)
        link.rename(self._path / LATEST)
        sync_folder(self._path)

    def _remove_old(self, kept: set[str]) -> None:
        for folder in self._path.iterdir():
            if re.fullmatch(r"\.?release-\d{4,}(\.partial)?", folder.name) and folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)
