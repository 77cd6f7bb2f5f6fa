"""The numbers a manifest states, counted again from the records: people, rows, cells, groups, values and losses."""

import math
from fractions import Fraction
from typing import Final

from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.manifest import COUNTS, LASTING_COUNTS
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.regions import Region, penalty
from shoal.core.policy.policy import Policy

MISCOUNTED: Final = {
    name: f"{name} in a manifest is not what its records add up to"
    for name in COUNTS + LASTING_COUNTS
    if name not in ("withheld", "waiting")
}
LOSS: Final = {
    name: f"{name} in a manifest is not what its records come to"
    for name in ("ncp", "discernibility", "average_group", "loss")
}
CELL_PEOPLE: Final = "a cell's people are more than its rows, or, where a row is a person, not as many"
BOUND: Final = "the bound in a manifest is not the policy's 1/l"
PUBLISHED_AT: Final = "published_at is not the time of the request"

CLOSE = 1e-9  # losses are stated as floats


class Counts:
    """Counts every release again."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._is_redrawn = policy, policy.values == "redrawn"
        self._penalties: dict[tuple[Region, str], Fraction] = {}

    def see(self, release: Published, findings: Findings) -> None:
        manifest = release.manifest
        for cell, people in release.people.items():
            is_wrong = people > release.rows[cell] or (self._is_redrawn and people < release.rows[cell])
            findings.say(Promise.CONTRACT, CELL_PEOPLE, release.number, cell, int(is_wrong))
        if manifest is None:
            return
        groups, hierarchy = release.groups.values(), self._policy.sensitive.hierarchy
        shown = [(node, count) for group in groups for node, count in group.shown.items()]
        counted = {
            "people": sum(release.people.values()),
            "rows": sum(release.rows.values()),
            "cells": len(release.regions),
            "groups": len(groups),
            "formed": sum(group.formed == release.number for group in groups),
            "carried": sum(group.changed < release.number for group in groups),
            "suppressed": sum(count for node, count in shown if node == 0),
            "generalized": sum(count for node, count in shown if node and hierarchy.children(node)),
            "counterfeits": sum(group.counterfeits for group in groups),
            "vacant": sum(group.vacant for group in groups),
        }
        if self._policy.sampling >= 1:
            counted["unsampled"] = 0  # else it takes the coins to count them
        for name, count in counted.items():
            findings.say(Promise.CONTRACT, MISCOUNTED[name], release.number, times=int(manifest.get(name, 0) != count))
        is_bound = math.isclose(manifest["bound"], 1 / self._policy.l, rel_tol=CLOSE)
        findings.say(Promise.G2, BOUND, release.number, times=int(not is_bound))
        self._losses(release, counted["rows"], findings)

    def _losses(self, release: Published, rows: int, findings: Findings) -> None:
        assert release.manifest is not None
        stated = release.manifest["loss"]
        if (stated is None) != (rows == 0):
            findings.say(Promise.CONTRACT, LOSS["loss"], release.number)
        if stated is None or not rows:
            return
        total = Fraction(0)
        for cell, count in release.rows.items():
            key = release.regions[cell], release.epoch.leaves.digest
            if key not in self._penalties:
                self._penalties[key] = penalty(self._policy.attributes, key[0], release.epoch)
            total += self._penalties[key] * count
        counted = {
            "ncp": total / rows,
            "discernibility": Fraction(sum(count * count for count in release.rows.values())),
            "average_group": Fraction(rows, len(release.groups)),
        }
        for name, exact in counted.items():
            is_close = math.isclose(stated[name], exact, rel_tol=CLOSE, abs_tol=CLOSE)
            findings.say(Promise.CONTRACT, LOSS[name], release.number, times=int(not is_close))
