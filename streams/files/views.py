"""Views over the tidy tables that answer what people ask first, in SQL that DuckDB and PostgreSQL both read.

`low` and `high` enclose the truth about what was published, as those of `core/measure/count.py` do. Without the policy
nobody knows how many leaves stand below a label. So a group of a redrawn table says less here: a person may have
several values under one label.
"""

from collections.abc import Mapping
from typing import Final

# Of each release, cell and value; rows outside of the cell may take the value, and spare values have no row.
_EXPECTED_IN_ALL = """
    SELECT release, r.cell, v.value, sum(r.rows * v.share) AS expected,
        CAST(sum(CASE WHEN v.value = '*' OR (e."values" = 'redrawn' AND r.rows < v.group_rows) THEN 0
            ELSE greatest(0, v.count - v.counterfeits - v.vacant - (v.group_rows - r.rows)) END) AS BIGINT) AS low,
        CAST(sum(CASE WHEN e."values" = 'redrawn' THEN v.count ELSE least(r.rows, v.count) END) AS BIGINT) AS high
    FROM "rows" r JOIN "values" v USING (release, "group") JOIN releases e USING (release)
    GROUP BY release, r.cell, v.value
"""
_EXPECTED = """
    SELECT e.value, e.expected, e.low, e.high, c.* FROM expected_in_all e JOIN cells c USING (release, cell)
    WHERE release = (SELECT max(release) FROM releases)
"""
_BY_VALUE = """
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

NEWEST: Final[Mapping[str, str]] = {
    "expected_in_all": _EXPECTED_IN_ALL,
    "expected": _EXPECTED,
    "by_value": _BY_VALUE,
}
"""What can be asked of one release. A view may use those before it."""

VIEWS: Final[Mapping[str, str]] = {**NEWEST, "changes": _CHANGES}
"""What can be asked of all releases."""
