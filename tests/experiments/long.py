"""The Zipf crowd over eighty releases of steady size: what goes on growing after the twentieth, and what headroom does.

Regions are cut when enough people happen to be there and never grow again, so in a long series more and more of them
fall under k when people happen to leave; and people who stay spend what is left of their budget.
"""

from dataclasses import replace

from tests.experiments.series import Figures, Watcher, measure, run
from tests.experiments.zipf import Crowd

HEADROOMS = (3, 10)  # the default for k = 5, and a generous one
EVERY = 5


def experiment(watch: Watcher, *, quick: bool = False) -> Figures:
    """The figures of every fifth release, by headroom."""
    crowd = replace(Crowd(), people=2_000, releases=6) if quick else replace(Crowd(), releases=80)
    runs = []
    for headroom in HEADROOMS:
        releases = []
        for step in run(replace(crowd.policy(), headroom=headroom), crowd.tables()):
            if step.number == 1 or step.number % EVERY == 0:
                releases.append(measure(step) | {"cells": len(step.published.cell_names)})
                watch(f"headroom {headroom}: release {step.number} of {crowd.releases}")
        runs.append({"headroom": headroom, "releases": releases})
    return {"crowd": vars(crowd), "runs": runs}
