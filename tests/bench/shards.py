"""Shards: `shoal replay` of one table cut into more or fewer of them. Seconds from request to release, and memory; what
the last release shows falsely or as "*", and how wrong it answers COUNT queries, the same ones of every table.

Each line is a process of its own. Memory is its own and that of its children, with shared pages counted once, looked at
four times a second. The events are written to a file first: reading them is not part of a release.
"""

import json
import os
import tempfile
import time
from pathlib import Path

from shoal.core.measure.query import count_true, draw_queries, estimate, query_error, truth_of
from shoal.core.measure.release_reader import read_columns
from shoal.streams.files import replay
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.files.true_tables import tables_at_releases
from shoal.streams.files.whole_releases import whole_release
from tests.bench.figures import Figures, apart, say, watched
from tests.bench.load import People, write_policy

FULL_EVERY = 24
RELEASES = 3
ASKED_UP_TO = 1_000_000  # people: of more, the true table does not fit beside the release
_LOOK_S = 0.25


def measure(*, quick: bool = False) -> Figures:
    """The same people in one shard and in four, four times as many in eight, and ten times as many in sixteen."""
    people = 20_000 if quick else 1_000_000
    cases = [(people, 1, 1), (people, 4, 2), (4 * people, 8, 2), (10 * people, 16, 2)]
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as name:
        folder = Path(name)
        found = [apart(_replayed, folder, *case) for case in cases]
        for one in found:
            if one["people"] <= min(people, ASKED_UP_TO):
                say(f"shards: asking {one['people']:,} people in {one['shards']} shards")
                one.update(apart(_asked, folder, one["people"], one["shards"]))
    return {"tables": found}


def _replayed(folder: Path, people: int, shards: int, jobs: int) -> Figures:
    path = _policy(folder, shards)
    events = _events(folder, people)
    if not events.exists():
        say(f"shards: writing the events of {people:,} people")
        _write_events(events, people)
    say(f"shards: replaying {people:,} people in {shards} shards")
    watcher, out = _Watcher(), _out(folder, people, shards)
    with watched(_taken_kib, _LOOK_S) as memory:
        job = replay.Job(load_policy(path), str(events), out, secret=b"a secret of the benchmark", jobs=jobs)
        outcome = replay.replay(job, watcher)
    sizes = [_size(out / f"release-{number:04d}") for number in range(1, RELEASES + 1)]
    manifest = dict(outcome.manifest or {})
    shares = {name: manifest[name] / manifest["rows"] for name in ("suppressed", "waiting")}
    found: Figures = {"people": people, "shards": shards, "jobs": jobs, "release_s": watcher.took}
    return found | {"memory_mib": max(memory) / 1024, "bytes": sizes, "withheld": manifest["withheld"]} | shares


def _asked(folder: Path, people: int, shards: int) -> Figures:
    """The error of COUNT queries at the last release, in a process of its own: memory was measured without it."""
    policy = load_policy(_policy(folder, shards))
    with _events(folder, people).open("rb") as lines:
        table = next(step.table for step in tables_at_releases(policy, lines) if step.number == RELEASES)
    truth = truth_of(policy, ((record.qid, tuple(record.values)) for record in table.values()))
    queries = draw_queries(load_policy(_policy(folder, 1)))  # the name of a table decides which are drawn
    published = read_columns(policy, whole_release(_out(folder, people, shards), RELEASES).records)
    error = query_error(estimate(published, queries), count_true(truth, queries), len(truth.leaves))
    return {"query_error": error.mean, "query_error_median": error.median}


def _events(folder: Path, people: int) -> Path:
    return folder / f"events-{people}.jsonl"


def _out(folder: Path, people: int, shards: int) -> Path:
    return folder / f"out-{people}-{shards}"


def _policy(folder: Path, shards: int) -> Path:
    scaled = {"scale": {"shards": shards}, "release": {"full_every": FULL_EVERY}}
    return write_policy(folder, f"bench-shards-{shards}", "lasting", scaled)


def _write_events(path: Path, count: int) -> None:
    """Everybody, a release, and twice 1 % changed with a release."""
    people = People(seed=count)
    with path.open("w", encoding="utf-8") as file:
        for events in (people.inserts(count), people.changes(count // 100), people.changes(count // 100)):
            file.writelines(json.dumps(event) + "\n" for _, event in events)
            file.write('{"op": "release"}\n')


def _size(folder: Path) -> int:
    names = ("cells.jsonl", "groups.jsonl", "gone.jsonl", "manifest.json")
    return sum((folder / name).stat().st_size for name in names if (folder / name).exists())


class _Watcher:
    """Times releases: the last lines before one are counted as read when it begins."""

    def __init__(self) -> None:
        self.took: list[float] = []
        self._begun_s = 0.0

    def note(self, sentence: str) -> None: ...

    def begin(self, total: int | None) -> None: ...

    def read(self, size_bytes: int) -> None:
        self._begun_s = time.perf_counter()

    def released(self, number: int) -> None:
        self.took.append(time.perf_counter() - self._begun_s)


def _taken_kib() -> int:
    """What this process and its children take together."""
    return sum(map(_pss_kib, _family()))


def _family() -> list[int]:
    me = os.getpid()
    found = [me]
    for entry in os.scandir("/proc"):
        try:
            if entry.name.isdigit() and int(Path(entry.path, "stat").read_text().rpartition(")")[2].split()[1]) == me:
                found.append(int(entry.name))
        except OSError:
            continue  # it has ended
    return found


def _pss_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
