"""Group sizes: how many people the groups of a release have."""

from typing import Final

import numpy as np

from shoal.core.measure.metric import Metric
from shoal.core.measure.release_reader import ReleaseColumns

AVERAGE_GROUP: Final = Metric[ReleaseColumns](
    "average_group",
    "people per group",
    ".2f",
    lambda release: release.rows / len(release.people),
    "On average; small groups say more, and cost more.",
)
MEDIAN_GROUP: Final = Metric[ReleaseColumns](
    "median_group", "median group", ".1f", lambda release: float(np.median(release.people))
)
LARGEST_GROUP: Final = Metric[ReleaseColumns](
    "largest_group", "largest group", ",", lambda release: int(release.people.max())
)
