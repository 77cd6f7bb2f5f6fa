"""Prints SQL that fills the hospital (`fill`), or that changes it as a night does (`night`).

python3 examples/hospital/changes.py fill | psql "$HOSPITAL"
"""

import argparse
import random
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

_HERE = Path(__file__).parent
ZIPS = [line.partition(";")[0] for line in (_HERE / "zip.csv").read_text().splitlines()]
CODES = [line.partition(",")[0] for line in (_HERE / "icd.csv").read_text().splitlines()]


def patient(rnd: random.Random, number: int) -> Iterator[str]:
    """Somebody with one condition, or two."""
    born = date(1930, 1, 1) + timedelta(days=rnd.randrange(32_000))
    sex = rnd.choice(("'f'", "'m'"))
    yield (
        f"insert into patient values ({number}, 'Patient {number}', '555-{number:04}', '{born}', {sex}, "
        f"'{rnd.choice(ZIPS)}') on conflict do nothing;"
    )
    for code in rnd.sample(CODES, rnd.choice((1, 1, 2))):
        yield (
            f"insert into condition (patient_id, icd, since) select {number}, '{code}', current_date - "
            f"{rnd.randrange(900)} where exists (select from patient where patient_id = {number});"
        )


def fill(rnd: random.Random, people: int) -> Iterator[str]:
    """The hospital on its first day."""
    for number in range(1, people + 1):
        yield from patient(rnd, number)


def night(rnd: random.Random, people: int) -> Iterator[str]:
    """Some leave, some arrive, some move house, some get well and some fall ill."""
    some = rnd.sample(range(1, people + 1), max(4, people // 10))
    quarter = len(some) // 4
    leaving, moving, well = some[:quarter], some[quarter : 2 * quarter], some[2 * quarter : 3 * quarter]
    for number in leaving:
        yield f"delete from patient where patient_id = {number};"
    for number in moving:
        yield f"update patient set zip = '{rnd.choice(ZIPS)}' where patient_id = {number};"
    for number in well:
        yield f"update condition set icd = '{rnd.choice(CODES)}' where patient_id = {number};"
    for number in some[3 * quarter :]:
        yield from patient(rnd, 10_000 * rnd.randrange(1, 1000) + number)


def main() -> None:
    """Print one transaction."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("fill", "night"))
    parser.add_argument("--people", type=int, default=300, help="how many the hospital was filled with [300]")
    parser.add_argument("--seed", type=int, default=1, help="another night for another number [1]")
    chosen = parser.parse_args()
    rnd = random.Random(chosen.seed)
    print("begin;")
    for statement in (fill if chosen.what == "fill" else night)(rnd, chosen.people):
        print(statement)
    print("commit;")


if __name__ == "__main__":
    main()
