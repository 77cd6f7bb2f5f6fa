"""Runs the benchmarks: `python -m tests.bench [PART]… [--quick]`; parts are those of `SHOW`, service first.

All of them are run if none is named.

Prints tables and writes the figures to NAME.json in a folder (`--out`, default out/bench). `--page FILE` puts the
tables of every part that was run into that page, between the marks that name them. Nothing here fails because something
was slow: figures are for people to judge, and ratios taken in one run are the ones to trust.
"""

import argparse
import json
import re
import sys
import time
from importlib import import_module
from pathlib import Path

from tests.bench.figures import Figures, machine, rounded, say
from tests.bench.show import SHOW


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(SHOW)}")
    parser.add_argument("--quick", action="store_true", help="small tables: about two minutes, figures only for a look")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="folder for the figures as JSON")
    parser.add_argument("--page", type=Path, help="page to put the tables into")
    options = parser.parse_args(arguments)
    for part in options.parts:
        if part not in SHOW:
            parser.error(f"there is no part {part}")
    options.out.mkdir(parents=True, exist_ok=True)
    for part in options.parts or SHOW:
        begun, before = time.perf_counter(), machine()
        figures = import_module(f"tests.bench.{part}").measure(quick=options.quick)
        found = {"machine": before, "seconds": time.perf_counter() - begun, "quick": options.quick, **figures}
        found["machine"]["load_after"] = machine()["load"]
        (options.out / f"{part}.json").write_text(json.dumps(rounded(found), indent=1) + "\n", encoding="utf-8")
        text = describe(part, found)
        sys.stdout.write(f"\n{text}\n\n")
        sys.stdout.flush()
        if options.page:
            options.page.write_text(fill(options.page.read_text(encoding="utf-8"), part, text), encoding="utf-8")


def describe(part: str, found: Figures) -> str:
    """The tables of one part, and a line on where they come from."""
    where = found["machine"]
    quick = "a quick run, " if found["quick"] else ""
    about = (
        f"*{part}: {quick}{where['date']}, {where['processor']}, {where['cores']} cores, Python {where['python']}, "
        f"load {where['load']} before and {where['load_after']} after; took {found['seconds']:.0f} s.*"
    )
    return f"{about}\n\n{SHOW[part](found)}"


def fill(page: str, part: str, text: str) -> str:
    """The page with this text between the part's marks."""
    mark = re.compile(rf"(<!-- figures: {part} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not mark.search(page):
        say(f"the page has no place for {part}")
    return mark.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page)


if __name__ == "__main__":
    main()
