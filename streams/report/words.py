"""Every figure of the report by name: how it is written, what its column is called, and what it means."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from shoal.core.measure.hidden_values import HIDDEN_SHARE
from shoal.core.measure.metric import Metric
from shoal.core.measure.metrics import METRICS
from shoal.core.measure.query import QUERY_METRICS


class Figure(NamedTuple):
    """`how` is a format of Python, % for a share; a missing figure is a dash."""

    head: str
    how: str
    meaning: str = ""

    def write(self, value: Any) -> str:
        if value is None:
            return "–"
        return f"{100 * value:.2f} %" if self.how == "%" else format(value, self.how)


def _figures(metrics: Iterable[Metric[Any]]) -> dict[str, Figure]:
    return {metric.name: Figure(metric.head, metric.form, metric.meaning) for metric in metrics}


FIGURES: Mapping[str, Figure] = {
    "release": Figure("release", ""),
    "published_at": Figure("published at", ""),
    "rows": Figure("rows", ",", "People published in this release."),
    "withheld": Figure("withheld", ",", "People left out of this release. They are late, not lost."),
    "groups": Figure("groups", ","),
    "carried": Figure(
        "carried",
        ",",
        "Groups published again as they were, because nobody in them changed. They say nothing new and cost nothing.",
    ),
    "suppressed": Figure("suppressed", ",", "Values shown as “*”."),
    "generalized": Figure("raised", ",", "Values shown as something more general."),
    **_figures([HIDDEN_SHARE]),  # beside the two figures it adds up; the other metrics follow below
    "max_breach": Figure(
        "max_breach",
        ".4f",
        "The largest probability, over everyone ever published, with which someone who kept all releases can link a "
        "person to a value.",
    ),
    "bound": Figure("bound", ".4f", "What max_breach may never exceed."),
    "breach_median": Figure(
        "breach, median", ".4f", "The same for the person in the middle: half of the people have spent less."
    ),
    "breach_most": Figure("breach, 95 %", ".4f", "19 of 20 people have spent less than this."),
    **_figures(METRICS),
    **_figures(QUERY_METRICS),
}
