"""Every figure of the report by name: how it is written, what its column is called, and what it means."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Figure(NamedTuple):
    """`how` is a format of Python, % for a share; a missing figure is a dash."""

    head: str
    how: str
    meaning: str = ""

    def write(self, value: Any) -> str:
        if value is None:
            return "–"
        return f"{100 * value:.2f} %" if self.how == "%" else format(value, self.how)


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
    "hidden_share": Figure("suppressed or raised", "%", "Both, as a share of all values shown."),
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
    "average_group": Figure("people per group", ".2f", "On average; small groups say more, and cost more."),
    "median_group": Figure("median group", ".1f"),
    "largest_group": Figure("largest group", ","),
    "ncp": Figure(
        "NCP",
        "%",
        "How much of its domain an attribute of a row spans, on average over rows and attributes: 0 is exact.",
    ),
    "discernibility": Figure("discernibility", ",", "The sum over regions of the square of their rows."),
    "qid_loss": Figure(
        "loss per row",
        ".4f",
        "Xiao and Tao’s information loss of a row’s quasi-identifiers: for each, how many other values of the domain "
        "it might have, as a share of the domain, added up.",
    ),
    "sensitive_loss": Figure("loss per value", ".4f", "The same for a sensitive value: 0 as it is, nearly 1 for “*”."),
    "query_error": Figure(
        "query error, mean",
        "%",
        "How wrong the release answers random COUNT queries on one to all attributes and a sensitive condition, "
        "relative to the truth, or to 1 % of all values if that is more.",
    ),
    "query_error_median": Figure("query error, median", "%", "Half of the queries are answered better."),
    "query_error_most": Figure("query error, 90 %", "%", "9 of 10 queries are answered better."),
}
