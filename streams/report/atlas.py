"""One release to look into: its regions with their people and the values expected there, and its groups.

This is what the page's map is drawn from, in the browser. It holds only what is published, in figures that JavaScript
can add up: a region is a half-open run per attribute, a category's in the order of its leaves. A large release would
make a page that no browser opens, so the rarer values and the later groups are left out, and `left_out` says how many.

As a program it makes the atlas of the release on its standard input: the worker has it made beside its own work.
"""

import gzip
import json
import os
import pickle
import sys
from collections import defaultdict
from typing import Any, Final

import numpy as np

from shoal.core.cells.region import domain
from shoal.core.measure.guess import largest_share, shares
from shoal.core.measure.release_reader import SPARE, ReleaseColumns, read_columns
from shoal.core.policy.policy import Attribute

_FIGURES: Final = 400_000  # regions times values
_VALUES: Final = 12  # at least, however many regions there are
_GROUPS: Final = 1_500
_LABELS: Final = 2_000  # a longer list of leaves is drawn without names


def make_atlas(number: int, published: ReleaseColumns) -> dict[str, Any]:
    """A release as JSON takes it."""
    nodes = _frequent_nodes(published)
    labels = published.policy.sensitive.hierarchy.labels
    return {
        "release": number,
        "values": published.policy.values,
        "attributes": [_attribute(attribute) for attribute in published.policy.attributes],
        "cells": {
            "names": published.cell_names,
            "people": published.cell_people.tolist(),
            "low": [column.tolist() for column in published.low],
            "high": [column.tolist() for column in published.high],
        },
        "expected": {labels[node]: _expected(published, node) for node in nodes},
        "groups": _groups(published),
        "best_guess": largest_share(published),
        "left_out": {
            "values": len(np.unique(published.shown_node)) - len(nodes),
            "groups": max(0, len(published.group_names) - _GROUPS),
        },
    }


def _attribute(attribute: Attribute) -> dict[str, Any]:
    low, high = domain(attribute)
    found: dict[str, Any] = {"name": attribute.name, "kind": attribute.kind, "low": low, "high": high}
    if attribute.hierarchy is not None and len(attribute.hierarchy.leaves) <= _LABELS:
        found["labels"] = attribute.hierarchy.leaves
    return found


def _frequent_nodes(published: ReleaseColumns) -> list[int]:
    """What is shown most often first."""
    most = max(_VALUES, _FIGURES // max(1, len(published.cell_names)))
    shown = np.bincount(published.shown_node, published.shown_count)
    order = np.argsort(-shown, kind="stable")[:most]
    return [int(node) for node in order if shown[node]]


def _expected(published: ReleaseColumns, node: int) -> list[float]:
    """How many rows of each region are expected to have this value: every value of a group fits every row of it."""
    of_node = published.shown_node == node
    share = np.zeros(len(published.group_names))
    share[published.shown_group[of_node]] = shares(published)[of_node]
    weights = published.cell_rows_count * share[published.cell_rows_group]
    found = np.bincount(published.cell_rows_cell, weights, len(published.cell_names))
    return [float(number) for number in np.round(found, 2)]


def _groups(published: ReleaseColumns) -> list[dict[str, Any]]:
    labels = published.policy.sensitive.hierarchy.labels
    rows: dict[int, dict[int, int]] = defaultdict(dict)
    shows: dict[int, dict[str, int]] = defaultdict(dict)
    columns = published.cell_rows_group, published.cell_rows_cell, published.cell_rows_count
    for group, cell, count in zip(*(column.tolist() for column in columns), strict=True):
        if group < _GROUPS:
            rows[group][cell] = count
    columns = published.shown_group, published.shown_node, published.shown_count
    for group, node, count in zip(*(column.tolist() for column in columns), strict=True):
        if group < _GROUPS:
            shows[group][labels[node]] = count
    spare, formed = published.spare.tolist(), published.formed.tolist()
    return [
        {
            "name": name,
            "formed": formed[at],
            SPARE[published.policy.values]: spare[at],
            "rows": rows[at],
            "shows": shows[at],
        }
        for at, name in enumerate(published.group_names[:_GROUPS])
    ]


def main() -> None:
    """From the pickled policy, number and records of a release to its atlas, as gzipped JSON, at low priority."""
    os.nice(10)
    policy, number, records = pickle.load(sys.stdin.buffer)  # noqa: S301 - the worker that started this wrote it
    atlas = make_atlas(number, read_columns(policy, records))
    written = json.dumps(atlas, ensure_ascii=False, separators=(",", ":")).encode()
    sys.stdout.buffer.write(gzip.compress(written, 5, mtime=0))


if __name__ == "__main__":
    main()
