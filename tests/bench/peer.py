"""One peer on Adult, run by that peer's own Python: `python peer.py NAME FOLDER K` prints one line of JSON.

It imports nothing of Shoal, because it runs in an environment where only the peer is installed.
"""

import csv
import gzip
import io
import json
import sys
import time
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

QIDS = ("age", "sex", "race", "marital-status", "education", "native-country", "workclass")
SENSITIVE = "occupation"
AGE_STEPS = (5, 10, 20, 40)


def main() -> None:
    name, folder, k = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    with gzip.open(folder / "adult.csv.gz", "rt", encoding="utf-8") as text:
        people = list(csv.DictReader(text))
    table = import_module("pandas").DataFrame(people)[[*QIDS, SENSITIVE]]
    table["age"] = table["age"].astype(int)
    with redirect_stdout(io.StringIO()):
        found = {"anonypy": run_anonypy, "anjana": run_anjana}[name](table, folder, k)
    sys.stdout.write(json.dumps(found) + "\n")


def run_anonypy(table: Any, _: Path, k: int) -> dict[str, Any]:
    """Mondrian, partition only: what it makes of the partition afterwards is not timed."""
    mondrian = import_module("anonypy.mondrian").Mondrian
    for column in [*QIDS[1:], SENSITIVE]:
        table[column] = table[column].astype("category")
    begun = time.process_time()
    parts = mondrian(table, list(QIDS), SENSITIVE).partition(k)
    seconds = time.process_time() - begun
    classes = [0] * len(table)
    for number, part in enumerate(parts):
        for row in part:
            classes[row] = number
    return {"seconds": seconds, "classes": classes}


def run_anjana(table: Any, folder: Path, k: int) -> dict[str, Any]:
    """Full-domain generalization with at most 5 % of the rows suppressed."""
    anonymize = import_module("anjana.anonymity").k_anonymity
    hierarchies = {column: _levels(folder / f"{column}.csv") for column in QIDS[1:]}
    ages = sorted(set(table["age"].tolist()))
    steps = [[f"[{age // step * step}, {age // step * step + step})" for age in ages] for step in AGE_STEPS]
    hierarchies["age"] = dict(enumerate([ages, *steps, ["*"] * len(ages)]))
    begun = time.process_time()
    made = anonymize(table, [], list(QIDS), k, 5, hierarchies)
    seconds = time.process_time() - begun
    return {"seconds": seconds, "count": len(made.groupby(list(QIDS))), "suppressed": len(table) - len(made)}


def _levels(path: Path) -> dict[int, list[str]]:
    """A hierarchy level by level, which is how ANJANA takes it; it looks values up by searching the level below."""
    with path.open(encoding="utf-8") as lines:
        chains = list(csv.reader(lines, delimiter=";"))
    return {level: [chain[level] for chain in chains] for level in range(len(chains[0]))}


if __name__ == "__main__":
    main()
