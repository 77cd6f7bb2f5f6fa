"""The memory of a rebuild with shards: `python -m tests.bench.remaking PEOPLE SHARDS`, without any service.

It makes the releases of a table again, as `shoal rebuild` does it: everybody, then twice 1 % changed. Once with the
shards in files, as it is done, and once with a table that holds all shards. Each is a process of its own. Memory is
what a process cannot give back: pages that no file has. It is looked at a hundred times a second. Before a release it
is that of ingest, the window, and the ids of the benchmark itself, and with all shards of these, too.
"""

import sys
import tempfile
import time
from pathlib import Path

from shoal.core.plan import Window
from shoal.core.randomness import KeyedByHandle
from shoal.core.shards.table import Table
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.store.state_digest import StateDigest
from shoal.streams.worker.remaking import begin_anew
from tests.bench.figures import Figures, apart, watched
from tests.bench.load import PARTITIONS, People, write_policy

SECRET = b"a secret of the benchmark"
_LOOK_S = 0.01


def remake(folder: Path, count: int, shards: int, is_whole: bool) -> Figures:
    """Three releases; the last manifest is for comparison."""
    scaled = {"scale": {"shards": shards}, "release": {"full_every": 24}}
    policy = load_policy(write_policy(folder, "bench-remaking", "lasting", scaled))
    files, table = begin_anew(policy, SECRET, folder), Table.empty(policy, SECRET, KeyedByHandle)
    digests = [StateDigest(state.keyed) for state in table.states]
    people, intakes = People(seed=count), files.intakes(policy, PARTITIONS)
    begin, peaks, held, took, manifest = _unshared_kib(), [], [], [], b""
    for number in (1, 2, 3):
        for person, event in people.inserts(count) if number == 1 else people.changes(count // 100):
            assert intakes[int(person[-8:]) % PARTITIONS].take(event, 0) is None
        window = Window(None, {place: intake.cut() for place, intake in enumerate(intakes)}, ())
        with watched(_unshared_kib, _LOOK_S) as memory:
            since = time.perf_counter()
            if is_whole:
                made = table.plan(window, number)
                for digest, part, state in zip(digests, made.parts, table.states, strict=True):
                    digest.follow(part.change, state)
                table.apply(made)
                manifest = made.manifest
            else:
                again = files.make(window, policy, None, number)
                again.apply()
                manifest = again.manifest
            took.append(time.perf_counter() - since)
        peaks.append((max(memory) - begin) / 1024)
        held.append((memory[0] - begin) / 1024)
    return {"peaks_mib": peaks, "held_mib": held, "release_s": took, "manifest": manifest.decode()}


def _unshared_kib() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))


def main() -> None:
    count, shards = map(int, sys.argv[1:])
    found = {}
    for is_whole in (True, False):
        with tempfile.TemporaryDirectory(prefix="shoal-bench-") as name:
            found[is_whole] = apart(remake, Path(name), count, shards, is_whole)
        keys = ("peaks_mib", "held_mib", "release_s")
        peaks, held, took = (", ".join(f"{one:.1f}" for one in found[is_whole][key]) for key in keys)
        name = "all shards" if is_whole else "in files"
        sys.stdout.write(f"{name:10}  MiB at most: {peaks}   before each release: {held}   seconds: {took}\n")
    assert found[True]["manifest"] == found[False]["manifest"]


if __name__ == "__main__":
    main()
