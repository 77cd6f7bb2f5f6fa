"""Runs experiments: `python -m tests.experiments NAME… --out DIR` writes NAME.json and PNG plots to DIR.

`--page FILE` puts the tables of every experiment found in DIR into FILE, between the marks that name them. `--quick`
runs everything on a small part of the data, to see that it works.
"""

import argparse
import json
import re
import sys
import time
from importlib import import_module
from pathlib import Path

from tests.experiments.series import Figures, engine_digest, save
from tests.experiments.show import SHOW

MARK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.experiments", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(SHOW)}")
    parser.add_argument("--all", action="store_true", help="every experiment, instead of names")
    parser.add_argument("--out", type=Path, required=True, help="folder for figures and plots")
    parser.add_argument("--page", type=Path, help="page to put the tables into")
    parser.add_argument("--quick", action="store_true", help="a small part of the data")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in SHOW:
            parser.error(f"there is no experiment {name}")
    for name in SHOW if options.all else options.names:
        begun, engine = time.perf_counter(), engine_digest()  # before: others may be at work on it meanwhile
        figures = import_module(f"tests.experiments.{name}").experiment(_say, quick=options.quick)
        save(figures, options.out / f"{name}.json", engine)
        write_plots(name, options.out)
        _say(f"{name}: {time.perf_counter() - begun:.0f} s")
    if options.page:
        options.page.write_text(fill(options.page.read_text(encoding="utf-8"), options.out), encoding="utf-8")


def load(name: str, folder: Path) -> Figures:
    figures: Figures = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return figures


def write_plots(name: str, folder: Path) -> None:
    """The plots of an experiment, from its figures as they were saved."""
    for file, plot in SHOW[name](load(name, folder)).plots.items():
        (folder / file).write_bytes(plot.png())


def fill(page: str, folder: Path) -> str:
    """The page with the tables of the figures in a folder, each with the engine that it was made with."""

    def table(mark: re.Match[str]) -> str:
        figures = load(mark[2], folder)
        engine = f"engine `{figures['engine']}`" if "engine" in figures else "an earlier engine, not recorded"
        return f"{mark[1]}\n{SHOW[mark[2]](figures).text}\n\nMade with {engine}.\n\n{mark[3]}"

    return MARK.sub(table, page)


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


if __name__ == "__main__":
    main()
