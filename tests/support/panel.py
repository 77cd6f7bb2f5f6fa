"""The made-up panel of examples/panel, and the same rows as one file per year."""

import csv
import io
import subprocess
import sys
from pathlib import Path

from tests.support.root import ROOT

SCRIPT = ROOT / "examples" / "panel" / "panel.py"
POLICY = """
table: panel
attributes:
  age: {type: int, min: 0, max: 120}
  sex: {type: category, values: [female, male]}
  educ: {type: category, values: [1, 2, 3, 4, 5, unknown]}
sensitive: {name: job, values: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}
privacy: {k: 3, l: 2}
"""
MAPPING = """
people: {id: pid}
period: year
attributes:
  age: {column: born, convert: age}
  sex: {column: sex, lookup: {"1": male, "2": female}}
  educ: {column: educ, no_value: [NA], missing_value: unknown}
sensitive: {column: job, missing: withhold}
"""


def make_panel(folder: Path, people: int = 120) -> Path:
    """A folder with `panel.csv`, `policy.yaml` and `map.yaml`; returns the panel's path."""
    made = subprocess.run([sys.executable, str(SCRIPT), str(people)], capture_output=True, check=True, text=True)
    (folder / "panel.csv").write_text(made.stdout)
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "map.yaml").write_text(MAPPING)
    return folder / "panel.csv"


def split_by_year(panel: Path) -> list[Path]:
    """Writes `panel-2016.csv` and so on beside a panel, newest first, and returns the paths."""
    header, *lines = panel.read_text().splitlines(keepends=True)
    place = header.strip().split(",").index("year")
    years: dict[str, list[str]] = {}
    for line in lines:
        years.setdefault(line.split(",")[place], []).append(line)
    paths = []
    for year in sorted(years, reverse=True):
        paths.append(panel.with_name(f"panel-{year}.csv"))
        paths[-1].write_text(header + "".join(years[year]))
    return paths


def read_rows(panel: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(panel.read_text())))
