"""Writes Adult as events, as in Pei's experiment: 12,000 inserts and a release, then an increment per release.

python examples/adult/events.py [FIRST [INCREMENT]] > adult.jsonl
"""

import csv
import gzip
import json
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
FIRST, INCREMENT = 12_000, 1_800


def main() -> None:
    first, increment = [int(text) for text in sys.argv[1:]] + [FIRST, INCREMENT][len(sys.argv[1:]) :]
    count, due = 0, first
    with gzip.open(FOLDER / "adult.csv.gz", "rt", encoding="utf-8") as text:
        for person in csv.DictReader(text):
            person_id, occupation, age = person.pop("id"), person.pop("occupation"), int(person.pop("age"))
            event = {"op": "insert", "id": person_id, "qid": {"age": age, **person}, "sensitive": occupation}
            sys.stdout.write(json.dumps(event) + "\n")
            count += 1
            if count == due:
                sys.stdout.write('{"op": "release"}\n')
                due += increment


if __name__ == "__main__":
    main()
