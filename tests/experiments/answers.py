"""What a release answers: random queries and contrasts, beside shares alone, true values, and the even estimate.

Adult with churn, Synthea, the clinic of the demo and the Zipf crowd, by every publisher; the last release of each. How
often the truth lies in the likely range is measured against the true table, withheld people included.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.measure.contrast import compare, draw_contrasts
from shoal.core.measure.count import Answers
from shoal.core.measure.query import SANITY, Numbers, Query, count_true, draw_queries, estimate, truth_of
from shoal.core.measure.question import question_of
from shoal.streams.demo.clinic import Clinic, write_clinic
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.files.true_tables import tables_at_releases
from tests.experiments.lasting import PUBLISHERS, Series, adult_with_churn, synthea_years, zipf_crowd
from tests.experiments.series import Figures, Table, Watcher
from tests.experiments.sheet import Sheet, number_of


def clinic_nights(people: int, nights: int) -> Series:
    """The clinic of the demo, its people called as in the other series."""
    with TemporaryDirectory(prefix="shoal-") as folder:
        place = Path(folder) / "clinic"
        write_clinic(place, Clinic(people, nights))
        policy = load_policy(place / "policy.yaml")
        lines = (place / "events.jsonl").read_bytes().splitlines()
        tables: list[Table] = []
        names: dict[str, str] = {}
        for found in tables_at_releases(policy, lines):
            if found.number is not None:
                for person in found.table:
                    names.setdefault(person, f"p{len(names)}")
                tables.append({names[p]: (one.qid, tuple(sorted(one.values))) for p, one in found.table.items()})
    return Series(policy, tables, foreseen=5)


def measure(series: Series, table: Table, sheet: Sheet, questions: int) -> Figures:
    """The figures of one release of a true table."""
    release, truth = sheet.published, truth_of(series.policy, table.values())
    answers, total = Answers(release), len(truth.leaves)
    queries = draw_queries(series.policy, count=questions)
    drawn = draw_contrasts(series.policy, truth, "queries", questions)
    cells = _cells(table, sheet)
    withheld = float(np.mean(cells < 0))
    found: Figures = {"people": len(table), "withheld_share": withheld, "contrasts": len(drawn.queries)}
    workloads = {
        "query": (queries, count_true(truth, queries), max(1.0, SANITY * total)),
        "contrast": (drawn.queries, drawn.truths, drawn.sanity),
    }
    for name, (asked, truths, sanity) in workloads.items():
        compared = compare(answers, truth, asked, truths, sanity, cells)
        even = _median(estimate(release, asked), truths, sanity)
        held, width = _ranges(answers, asked, truths, sanity)
        found |= {
            f"{name}_error": compared.error,
            f"{name}_even": even,
            f"{name}_alone": compared.alone,
            f"{name}_true": compared.true,
            f"{name}_kept": compared.kept,
            f"{name}_to_even": compared.error / even if even else 1.0,
            f"{name}_held": held,
            f"{name}_width": width,
        }
    return found


def _cells(table: Table, sheet: Sheet) -> Rows:
    """The cell of each person in the order of the table, -1 for nobody who is published."""
    position = {number_of(person): at for at, person in enumerate(table)}
    cells = np.full(len(table), -1, dtype=np.int64)
    cells[[position[person] for person in sheet.person.tolist()]] = sheet.cell
    return cells


def _median(found: Numbers, truths: Numbers, sanity: float) -> float:
    return float(np.median(np.abs(found - truths) / np.maximum(truths, sanity)))


def _ranges(answers: Answers, asked: tuple[Query, ...], truths: Numbers, sanity: float) -> tuple[float, float]:
    """How often the truth is in the likely range, and half its median width, relative to the estimate."""
    counts = [answers.count(question_of(query)) for query in asked]
    held = [count.likely[0] <= true <= count.likely[1] for count, true in zip(counts, truths.tolist(), strict=True)]
    widths = [(count.likely[1] - count.likely[0]) / 2 / max(count.estimate, sanity) for count in counts]
    return float(np.mean(held)), float(np.median(widths))


def experiment(watch: Watcher, *, quick: bool = False) -> Figures:
    """Every publisher on every table."""
    if quick:
        tables = {"adult": adult_with_churn(1_500, 3), "clinic": clinic_nights(800, 3)}
    else:
        tables = {
            "adult": adult_with_churn(12_000, 10),
            "synthea": synthea_years(10),
            "clinic": clinic_nights(5_000, 8),
            "zipf": zipf_crowd(10_000, 6),
        }
    found: Figures = {}
    for name, series in tables.items():
        found[name] = {}
        for publisher in PUBLISHERS:
            watch(f"{name}: {publisher}")
            *_, made = PUBLISHERS[publisher](series)
            found[name][publisher] = measure(series, series.tables[-1], made.sheet, 100 if quick else 1_000)
    return found
