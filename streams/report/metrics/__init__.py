"""The metrics of the report, in the order in which the page shows them.

A new metric is one module in this folder, with a class that follows `Metric` (metric.py), and one line in `METRICS`:
its figures then stand in `report.json` and in the table, with its tiles and plots beside the others.
"""

from shoal.streams.report.metrics.breach import Breach
from shoal.streams.report.metrics.claims import PersistenceClaims
from shoal.streams.report.metrics.contrasts import Contrasts
from shoal.streams.report.metrics.groups import Groups
from shoal.streams.report.metrics.guess import Guess
from shoal.streams.report.metrics.hidden import Hidden
from shoal.streams.report.metrics.interval import Interval
from shoal.streams.report.metrics.loss import Losses
from shoal.streams.report.metrics.metric import Metric
from shoal.streams.report.metrics.people import People
from shoal.streams.report.metrics.queries import Queries
from shoal.streams.report.metrics.sizes import Sizes

METRICS: tuple[type[Metric], ...] = (
    People,
    Groups,
    Hidden,
    Guess,
    Breach,
    PersistenceClaims,
    Sizes,
    Losses,
    Interval,
    Queries,
    Contrasts,
)
