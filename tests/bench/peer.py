"""One peer on one table, run by that peer's own Python: `python peer.py NAME TABLE K` prints one line of JSON.

TABLE is the folder of Adult, or a file of codes with a comma between them, one row a line. A peer that is not a package
is imported from the folder it is run in. Nothing of Shoal is imported: only the peer is installed here.
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
    name, table, k = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    with redirect_stdout(io.StringIO()):
        found = {"anonypy": run_anonypy, "anjana": run_anjana, "qiyuangong": run_qiyuangong}[name](table, k)
    sys.stdout.write(json.dumps(found) + "\n")


def run_anonypy(path: Path, k: int) -> dict[str, Any]:
    """Mondrian, partition only: what it makes of the partition afterwards is not timed."""
    mondrian = import_module("anonypy.mondrian").Mondrian
    if path.is_dir():
        table = _adult(path)
        for column in [*QIDS[1:], SENSITIVE]:
            table[column] = table[column].astype("category")
    else:
        table = import_module("pandas").read_csv(path, header=None).rename(columns=str)
        table[SENSITIVE] = 0
    begun = time.process_time()
    parts = mondrian(table, [column for column in table if column != SENSITIVE], SENSITIVE).partition(k)
    return _classes(parts, len(table), time.process_time() - begun)


def run_qiyuangong(path: Path, k: int) -> dict[str, Any]:
    """Strict Mondrian, partition only."""
    sys.path.insert(0, str(Path.cwd()))
    peer: Any = import_module("mondrian")
    with path.open(encoding="ascii") as lines:
        rows = [[*map(int, line.split(",")), number] for number, line in enumerate(lines)]
    begun = time.process_time()
    peer.init(rows, k)
    peer.anonymize_strict(peer.Partition(rows, [0] * peer.QI_LEN, [len(order) - 1 for order in peer.QI_ORDER]))
    seconds = time.process_time() - begun
    return _classes(([row[-1] for row in part.member] for part in peer.RESULT), len(rows), seconds)


def _classes(parts: Any, rows: int, seconds: float) -> dict[str, Any]:
    classes = [0] * rows
    for number, part in enumerate(parts):
        for row in part:
            classes[row] = number
    return {"seconds": seconds, "classes": classes}


def run_anjana(folder: Path, k: int) -> dict[str, Any]:
    """Full-domain generalization with at most 5 % of the rows suppressed."""
    table = _adult(folder)
    anonymize = import_module("anjana.anonymity").k_anonymity
    hierarchies = {column: _levels(folder / f"{column}.csv") for column in QIDS[1:]}
    ages = sorted(set(table["age"].tolist()))
    steps = [[f"[{age // step * step}, {age // step * step + step})" for age in ages] for step in AGE_STEPS]
    hierarchies["age"] = dict(enumerate([ages, *steps, ["*"] * len(ages)]))
    begun = time.process_time()
    made = anonymize(table, [], list(QIDS), k, 5, hierarchies)
    seconds = time.process_time() - begun
    return {"seconds": seconds, "count": len(made.groupby(list(QIDS))), "suppressed": len(table) - len(made)}


def _adult(folder: Path) -> Any:
    with gzip.open(folder / "adult.csv.gz", "rt", encoding="utf-8") as text:
        people = list(csv.DictReader(text))
    table = import_module("pandas").DataFrame(people)[[*QIDS, SENSITIVE]]
    table["age"] = table["age"].astype(int)
    return table


def _levels(path: Path) -> dict[int, list[str]]:
    """A hierarchy level by level, which is how ANJANA takes it; it looks values up by searching the level below."""
    with path.open(encoding="utf-8") as lines:
        chains = list(csv.reader(lines, delimiter=";"))
    return {level: [chain[level] for chain in chains] for level in range(len(chains[0]))}


if __name__ == "__main__":
    main()
