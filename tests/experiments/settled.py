"""Settled groups in long series: how many values are `*` and why, and how far totals are off.

Adult with churn and the Zipf crowd over 200 releases, and Synthea's ten years, as its policy has them and with nothing
permanent; each also with an insider. Means of three keys.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from shoal.core.plan import Window, plan
from shoal.core.policy.policy import Policy
from shoal.core.signatures.reasons import error_of_totals, hidden_by_reason
from shoal.core.state import State
from tests.experiments.lasting import Series, adult_with_churn, synthea_years, zipf_crowd
from tests.experiments.series import Figures, Table, Watcher, changes

KEYS = (b"a", b"b", b"c")
SHOWN = (1, 10, 50, 100, 200)  # releases, beside the last


def follow(policy: Policy, series: Series, key: bytes) -> Iterator[Figures]:
    """The figures of some releases; shares are of the values that have a row."""
    state = State.empty(policy, key)
    before: Table = {}
    for number, table in enumerate(series.tables, 1):
        made = plan(state, Window(None, {0: changes(before, table)}), policy, number)
        state.apply(made.change)
        before = table
        if number in SHOWN or number == len(series.tables):
            manifest = json.loads(made.release.manifest)
            held = Counter(value for _, values in table.values() for value in values)
            reasons = hidden_by_reason([state], manifest["waiting"])
            yield {
                "release": number,
                "hidden": manifest["suppressed"] / manifest["rows"],
                **{reason: count / manifest["rows"] for reason, count in reasons.items()},
                "totals": error_of_totals([state], held) or 0.0,
                "vacant": manifest["vacant"] / (manifest["rows"] + manifest["vacant"]),
            }


def experiment(watch: Watcher, *, quick: bool = False) -> Figures:
    """By table and number of insiders, the mean figures of some releases."""
    synthea = synthea_years(3, 4) if quick else synthea_years(10)
    sensitive = synthea.policy.sensitive._replace(permanent=frozenset())
    tables = {
        "adult": adult_with_churn(800, 4) if quick else adult_with_churn(12_000, 200),
        "synthea": synthea,
        "synthea, nothing permanent": replace(synthea, policy=replace(synthea.policy, sensitive=sensitive)),
        "zipf": zipf_crowd(1_500, 4) if quick else zipf_crowd(20_000, 200),
    }
    found: Figures = {"releases": []}
    for name, series in tables.items():
        for insiders in (0, 1):
            watch(f"{name}, insiders: {insiders}")
            m = series.policy.signature + insiders
            policy = replace(series.policy, insiders=insiders, signature=m, batch=4 * m)
            runs = [list(follow(policy, series, key)) for key in KEYS[: 1 if quick else None]]
            for same in zip(*runs, strict=True):
                mean = {figure: sum(one[figure] for one in same) / len(same) for figure in same[0]}
                found["releases"].append({"table": name, "insiders": insiders, **mean})
    return found
