"""All metrics of a release that its published records alone decide, by name.

A new metric is one function of a `ReleaseColumns` and one line here. `streams/report/metrics/` shows it and says in
words what it means.
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from shoal.core.measure.guess import largest_share
from shoal.core.measure.hidden_values import hidden_share
from shoal.core.measure.loss import discernibility, ncp, qid_loss, sensitive_loss
from shoal.core.measure.release_reader import ReleaseColumns

METRICS: Final[Mapping[str, Callable[[ReleaseColumns], float]]] = {
    "hidden_share": hidden_share,
    "best_guess": largest_share,
    "average_group": lambda release: release.rows / len(release.group_rows),
    "median_group": lambda release: float(np.median(release.group_rows)),
    "largest_group": lambda release: int(release.group_rows.max()),
    "ncp": ncp,
    "discernibility": discernibility,
    "qid_loss": lambda release: qid_loss(release) / release.rows,
    "sensitive_loss": lambda release: sensitive_loss(release) / int(release.shown_count.sum()),
}


def measure_release(release: ReleaseColumns) -> dict[str, float | None]:
    """Every metric of a release by name; None for all of them if it has no rows."""
    return {name: measure(release) if release.rows else None for name, measure in METRICS.items()}
