"""Makes events.jsonl.gz and condition.csv from Synthea's patients and conditions: a release per year.

    python examples/synthea/derive.py patients.csv.gz conditions.csv.gz

A patient is in the table of a year if they were alive in it and had a condition in it; their values are all conditions
that they had in that year. Patients are numbered in the order of the file; names, addresses and dates are dropped.
"""

import csv
import gzip
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
YEARS = range(2008, 2018)
RACES = {"white", "asian", "black", "hispanic", "native", "other"}

# The family of a condition: the first whose pattern is found in its description.
FAMILIES = (
    ("reproductive", r"pregnan|miscarriage|fetus|eclampsia|blighted ovum|uterine"),
    ("cancer", r"cancer|carcinoma|malignant|neoplasm"),
    ("metabolic", r"diabet|microalbuminuria|gout"),
    ("cardiovascular", r"hypertension|coronary|stroke|atrial|myocardial|cardiac"),
    ("neurological", r"migraine|seizure|epilepsy|alzheimer|attention deficit|paralysis|brain damage"),
    ("upper-respiratory", r"sinusitis|pharyngitis|sore throat|rhinitis|otitis"),
    ("lower-respiratory", r"bronchitis|asthma|emphysema|pneumonia"),
    ("head-injury", r"concussion|whiplash"),
    ("fracture", r"fracture"),
    ("sprain", r"sprain|tendon|ligament|meniscus"),
    ("wound", r"laceration|burn|bullet"),
    ("digestive", r"polyp|appendi|anus|diarrhea"),
    ("urinary", r"urinary|cystitis|pyelonephritis"),
    ("musculoskeletal", r"osteo|arthritis|fibromyalgia|chronic pain"),
    ("skin-and-allergy", r"dermatitis|allergic"),
    ("other", r""),
)
GROUPS = {
    "upper-respiratory": "respiratory",
    "lower-respiratory": "respiratory",
    "head-injury": "injury",
    "fracture": "injury",
    "sprain": "injury",
    "wound": "injury",
    "metabolic": "chronic",
    "cardiovascular": "chronic",
    "neurological": "chronic",
    "musculoskeletal": "chronic",
}

Record = tuple[dict[str, object], list[str]]


def label(description: str) -> str:
    """A short label of a condition: its description without the remark in brackets, in lower case."""
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\(.*?\)", "", description).lower().replace("'", "")).strip("-")


def read(path: str) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as text:
        return list(csv.DictReader(text))


def people(patients: list[dict[str, str]]) -> dict[str, tuple[str, dict[str, object], int]]:
    """By the source's key: a number, the quasi-identifiers, and the year of death, or 9999."""
    found = {}
    for row in patients:
        dates = row["birth_date"], row["death_date"] or "9999-"
        if row["race"] not in RACES or not all(re.match(r"\d{4}-", date) for date in dates):
            continue  # the source has a few bad dates, made on purpose
        area = re.search(r"\b(5\d\d)\d\d US", row["address"])
        qid = {
            "born": int(dates[0][:4]),
            "sex": {"F": "female", "M": "male"}[row["gender"]],
            "race": row["race"],
            "zip": f"{area[1]}**" if area else "unknown",
        }
        found[row["pat_id"]] = (f"p{len(found) + 1}", qid, int(dates[1][:4]))
    return found


def tables(patients: list[dict[str, str]], conditions: list[dict[str, str]]) -> Iterator[tuple[int, dict[str, Record]]]:
    known = people(patients)
    cases = defaultdict(list)
    for row in conditions:
        if row["PATIENT"] in known:
            cases[row["PATIENT"]].append((row["START"], row["STOP"] or "9999", label(row["DESCRIPTION"])))
    for year in YEARS:
        table = {}
        for key, mine in cases.items():
            number, qid, last = known[key]
            values = {name for start, stop, name in mine if start <= f"{year}-12-31" and stop >= f"{year}-01-01"}
            if values and year <= last:
                table[number] = (qid, sorted(values))
        yield year, table


def events(patients: list[dict[str, str]], conditions: list[dict[str, str]]) -> Iterator[dict[str, object]]:
    before: dict[str, Record] = {}
    for year, table in tables(patients, conditions):
        for person in sorted(before.keys() - table.keys()):
            yield {"op": "delete", "id": person}
        for person, (qid, values) in table.items():
            if person not in before:
                yield {"op": "insert", "id": person, "qid": qid, "sensitive": values}
            elif before[person][1] != values:
                yield {"op": "update", "id": person, "sensitive": values}
        yield {"op": "release", "at": f"{year}-12-31"}
        before = table


def hierarchy(conditions: list[dict[str, str]]) -> str:
    placed = {}
    for row in conditions:
        description = row["DESCRIPTION"]
        placed[label(description)] = next(
            family for family, pattern in FAMILIES if re.search(pattern, description.lower())
        )
    order = [family for family, _ in FAMILIES]
    found = sorted((GROUPS.get(family, family), order.index(family), name) for name, family in placed.items())
    chains = [[name, order[at], *([above] if above != order[at] else []), "*"] for above, at, name in found]
    return "".join(";".join(chain) + "\n" for chain in chains)


def main() -> None:
    patients, conditions = read(sys.argv[1]), read(sys.argv[2])
    lines = [json.dumps(event, separators=(",", ":")) for event in events(patients, conditions)]
    (FOLDER / "condition.csv").write_text(hierarchy(conditions), encoding="utf-8")
    packed = gzip.compress(("\n".join(lines) + "\n").encode(), compresslevel=9, mtime=0)
    (FOLDER / "events.jsonl.gz").write_bytes(packed)


if __name__ == "__main__":
    main()
