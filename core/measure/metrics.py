"""All metrics of a release that its published records alone decide, in the order of a report."""

from typing import Final

from shoal.core.measure.group_size import AVERAGE_GROUP, LARGEST_GROUP, MEDIAN_GROUP
from shoal.core.measure.hidden_values import HIDDEN_SHARE
from shoal.core.measure.loss import DISCERNIBILITY, NCP, QID_LOSS, SENSITIVE_LOSS
from shoal.core.measure.metric import Metric
from shoal.core.measure.release_reader import ReleaseColumns

METRICS: Final[tuple[Metric[ReleaseColumns], ...]] = (
    HIDDEN_SHARE,
    AVERAGE_GROUP,
    MEDIAN_GROUP,
    LARGEST_GROUP,
    NCP,
    DISCERNIBILITY,
    QID_LOSS,
    SENSITIVE_LOSS,
)


def measure_release(release: ReleaseColumns) -> dict[str, float | None]:
    """Every metric of a release by name; None for all of them if it has no rows."""
    return {metric.name: metric.measure(release) if release.rows else None for metric in METRICS}
