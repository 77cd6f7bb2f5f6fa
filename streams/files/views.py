"""Views over the tidy tables that answer what people ask first, in SQL that DuckDB and PostgreSQL both read.

`low` and `high` enclose the truth about what was published, as those of `core/measure/count.py` do. Without the policy
nobody knows how many leaves stand below a label. So a group of a redrawn table says less here: a person may have
several values under one label.

`expected` takes each value of a group to be as likely any row's. `estimate` is the model's, and `likely_low` and
`likely_high` its range, from the table `estimates` (estimates.py), which takes the policy. There a "*" or a raised
value counts under the leaves that it may stand for, and not under itself. Without the table `estimate` is `expected`,
and the likely range all that is certain.
"""

from collections.abc import Mapping
from typing import Final

# Of each release, cell and value; rows outside of the cell may take the value, and spare values have no row.
_SHOWN = """
    SELECT release, r.cell AS cell, v.value AS value, sum(r.rows * v.share) AS expected,
        CAST(sum(CASE WHEN v.value = '*' OR (e."values" = 'redrawn' AND r.rows < v.group_rows) THEN 0
            ELSE greatest(0, v.count - v.counterfeits - v.vacant - (v.group_rows - r.rows)) END) AS BIGINT) AS low,
        CAST(sum(CASE WHEN e."values" = 'redrawn' THEN v.count ELSE least(r.rows, v.count) END) AS BIGINT) AS high
    FROM "rows" r JOIN "values" v USING (release, "group") JOIN releases e USING (release)
    GROUP BY release, r.cell, v.value
"""
_EXPECTED = """
    SELECT e.value, e.expected, e.estimate, e.likely_low, e.likely_high, e.low, e.high, c.*
    FROM expected_in_all e JOIN cells c USING (release, cell)
    WHERE release = (SELECT max(release) FROM releases)
"""
_SHOWN_BY_VALUE = """
    SELECT release, value, sum(group_rows * share) AS expected,
        CAST(sum(CASE WHEN value = '*' THEN 0 ELSE greatest(0, count - counterfeits - vacant) END) AS BIGINT) AS low,
        CAST(sum(count) AS BIGINT) AS high
    FROM "values" GROUP BY release, value
"""
# From each release to the next, also for a value that comes or goes.
_CHANGES = """
    SELECT coalesce(n.release, p.release + 1) AS release, coalesce(n.value, p.value) AS value,
        coalesce(p.expected, 0) AS before, coalesce(n.expected, 0) AS after,
        coalesce(n.expected, 0) - coalesce(p.expected, 0) AS change,
        coalesce(n.low, 0) - coalesce(p.high, 0) AS low, coalesce(n.high, 0) - coalesce(p.low, 0) AS high
    FROM by_value n FULL JOIN by_value p ON n.value = p.value AND n.release = p.release + 1
    WHERE coalesce(n.release, p.release + 1) IN (SELECT release FROM releases)
        AND coalesce(n.release - 1, p.release) IN (SELECT release FROM releases)
"""


def _without(shown: str) -> str:
    return f"""
    SELECT s.*, expected AS estimate, CAST(low AS DOUBLE PRECISION) AS likely_low,
        CAST(high AS DOUBLE PRECISION) AS likely_high
    FROM ({shown}) s
"""  # noqa: S608 - all parts are constants of this module


def _with(shown: str, keys: str, cells: str) -> str:
    """The same lines, and those of values that only the model expects."""
    return f"""
    SELECT {keys}, coalesce(s.expected, 0) AS expected, coalesce(m.low, s.low) AS low, coalesce(m.high, s.high) AS high,
        coalesce(m.estimate, 0) AS estimate, coalesce(m.likely_low, 0) AS likely_low,
        coalesce(m.likely_high, 0) AS likely_high
    FROM ({shown}) s FULL JOIN (SELECT * FROM estimates WHERE cell {cells}) m USING ({keys})
"""  # noqa: S608


def _views(by_cell: str, by_value: str) -> Mapping[str, str]:
    return {"expected_in_all": by_cell, "expected": _EXPECTED, "by_value": by_value}


NEWEST: Final = _views(_without(_SHOWN), _without(_SHOWN_BY_VALUE))
"""What can be asked of one release. A view may use those before it."""

VIEWS: Final[Mapping[str, str]] = {**NEWEST, "changes": _CHANGES}
"""What can be asked of all releases."""

MODEL_VIEWS: Final[Mapping[str, str]] = {
    **_views(_with(_SHOWN, "release, cell, value", "IS NOT NULL"), _with(_SHOWN_BY_VALUE, "release, value", "IS NULL")),
    "changes": _CHANGES,
}
"""The same where there is a table `estimates`."""
