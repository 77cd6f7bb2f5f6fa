"""What follows from the records of releases, for the worker's page, which otherwise knows their manifests only.

As a program it measures the releases on its standard input, as `shoal report` does without private files: the worker
has them measured beside its own work.
"""

import json
import os
import pickle
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from shoal.core.measure.release_reader import read_columns
from shoal.core.policy.policy import Policy
from shoal.streams.report.metrics.metric import Figures, Reading, Request
from shoal.streams.report.series import make_metrics

Unread = tuple[Mapping[str, Any], list[bytes]]  # a manifest, and the records of its release


def measure(policy: Policy, releases: Iterable[Unread]) -> dict[int, Figures]:
    """The figures of each release by its number. Raises CoreError for records that are not this policy's."""
    metrics = make_metrics(Request(policy, None))
    found: dict[int, Figures] = {}
    for manifest, records in releases:
        reading = Reading(manifest["release"], manifest, read_columns(policy, records), None, None)
        found[reading.number] = {name: figure for one in metrics for name, figure in one.measure(reading).items()}
    return found


def main() -> None:
    """From the pickled policy and releases to their figures as JSON, at low priority."""
    os.nice(10)
    policy, releases = pickle.load(sys.stdin.buffer)  # noqa: S301 - the worker that started this wrote it
    sys.stdout.write(json.dumps(measure(policy, releases)))


if __name__ == "__main__":
    main()
