"""The numbers by which groups beside other publishers are searched, each with its reason.

No promise depends on any of them: every group is checked exactly before it is accepted. They trade time, suppressed
values and counterfeits against one another. docs/external.md and docs/experiments.md have the figures of these choices.
"""

from typing import Final

import numpy as np

# -- counterfeits ----------------------------------------------------------------------------------------------------

COUNTERFEIT_SHARE: Final = 0.05
"""Counterfeits of a release per row of its pool. A reader counts values, and one false value in twenty is bearable."""

FEWEST_COUNTERFEITS: Final = 8
"""Counterfeits that a small pool may have nevertheless: a share of twenty rows would allow hardly one."""

# -- even groups (even_groups.py) ------------------------------------------------------------------------------------

EVEN_BLOCKS: Final = (16, 64, 8, 256, 16, 64)
"""Groups that are dealt to together, round by round.

Small blocks keep neighbours together; large ones find partners for rows that found none nearby. The sizes alternate so
that each round mixes other rows.
"""

ROOMINESS: Final = 2
"""Size of an even group, in sizes at which the most frequent value stands once in each group.

A larger group shows more values, so that more of its overlapping rows are balanced.
"""

LARGEST_PER_ALPHA: Final = 3
"""Size of an even group, at most, in alphas: without a limit it would grow with the number of values in the table."""

COUNTERFEITING_ROUNDS: Final = 2
"""Rounds at the end that may counterfeit. Before them a real row may still be found."""

PEOPLE_PER_COUNTERFEIT: Final = 10
"""People that an even group must have for each of its counterfeits, so that most of what it shows is true."""

ROWS_PER_COUNTERFEIT: Final = 2
"""Rows of a group that must lack a value for it to be counterfeited there. One row is not worth a false value."""

# -- uneven groups (uneven_groups.py) --------------------------------------------------------------------------------

UNEVEN_BLOCKS: Final = (2048, 512)
"""Rows that are given one template, round by round, in turns.

Large blocks have enough rows of each value; small ones fit their template better. Two sizes move the borders.
"""

UNEVEN_ROUNDS: Final = 24
"""Rounds at most. The search ends earlier once every size of block was tried in vain."""

FEWEST_UNEVEN: Final = 256
"""Overlapping rows below which no template is searched: so few are better served one by one."""

UNEVEN_WORK: Final = 250_000
"""Overlaps looked at in all rounds together, the first round aside: it keeps planning time in proportion."""

SWEEPS: Final = 3
"""Passes of the coordinate descent over a template's columns. It ends earlier when a pass improves nothing."""

COLUMNS: Final = 16
"""Values of a block that a template may show, unless the policy asks for larger groups: the frequent ones matter."""

MOST_TIMES: Final = 4
"""How often a template shows a value, at most. Each repetition asks for a larger group (G2)."""

GROUPS_PER_BLOCK: Final = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64])
"""Numbers of groups of one template that are tried in a block: dense where one more makes a difference."""

COUNTERFEIT_PRICE: Final = 4.0
"""Price of a counterfeit, in overlapping rows published: one false value must pay for several rows not suppressed."""

COMPANION_PRICE: Final = 0.25
"""Price of a row in a template's group that does not overlap. It is small: the row would be published anyway."""

# -- one by one (formation.py) ---------------------------------------------------------------------------------------

LARGEST_CALL: Final = 48
"""People and counterfeits that one row may call into its group. A limit of time, and of false values."""

TIMES_TRIED: Final = (1, 2, 3, 4, 6, 8)
"""How often a row tries to have its own value shown: few times first, which needs the smallest group."""

PATIENCE: Final = 256
"""Rows tried without success before the rest are given up, and rows that may try to join a finished group."""

TRIES_PER_GROUP: Final = 3
"""Further tries for each group found: where one row in three finds a group it is worth going on."""

TRIED_SHARE: Final = 0.01
"""Rows of a large pool that are tried one by one at all. Each try is Python, not numpy."""

HIDDEN_TOGETHER: Final = 32
"""People in one group that shows only "*". Any number is safe; this one keeps records short."""

CANDIDATES: Final = 4
"""Rows of each value considered to fill up a group, overlapping rows asked for one place, and groups a row may join."""

# -- coarse cells (generalize.py) ------------------------------------------------------------------------------------

COARSE_LOSS: Final = 1.5
"""NCP that a coarse cell may lose, in losses of the leaf (docs/decisions/generalize.md has the figures)."""

# -- the index of regions (region_index.py) --------------------------------------------------------------------------

FEW_BOXES: Final = 8
"""Boxes of a part that is not cut any more: comparing with eight costs less than another level."""

DEEPEST_CUT: Final = 40
"""Levels of cuts at most: a limit for boxes that are hard to separate."""

WORTHWHILE_CUT: Final = 0.9
"""Share of a part's boxes that a cut may leave on either side, at most; boxes across the cut are kept twice."""

PAIRS_AT_ONCE: Final = 1 << 20
"""Pairs of person and box compared in one numpy call: large enough to be quick, small enough for memory."""
