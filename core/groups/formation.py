"""Group formation: who is published with whom, so that nobody's budget is overspent (docs/design.md, "How a release is
made", step 6).

`deal.py` deals most of the pool at once, `binding.py` puts cliques into groups of their own or into these. The units
that are left, and all units near a guard, are looked at one by one:

1. *sweep*: along the tree's order, a group starts at the first unit left and takes from a bounded look-ahead those that
   do not make it need to be larger, until it is as large as its most demanding member asks;
2. *place*: a unit that found no group joins a neighbouring one that has room for it as it is;
3. *raise*: it joins a neighbouring group with values raised in the hierarchy as far as it takes, at the least loss
   (Xiao-Tao, figure 5: the value and everything beneath the lifted node), but not to the root, which says nothing;
4. *gather*: the units still left are swept again, down to the promise's hard minimum instead of the strategy's target:
   a budget spent faster than planned is better than a value suppressed today, and worse than one raised;
5. *suppress*: a unit joins a neighbouring group with values shown as "*", the root;
6. it is *withheld* until a later release where its cell can spare the row, or stands in a group of "*" only.

Look-ahead and neighbourhood are bounded, so the cost is linear in the pool. Requirements are floats while searching; a
group is kept only if `Promises.wrong`, which is exact, finds no broken promise.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.groups.binding import bind
from shoal.core.groups.deal import ALONE, deal
from shoal.core.groups.grouping import Grouping
from shoal.core.groups.ledger import Ledger
from shoal.core.groups.placing import AS_IT_IS, HIDDEN, RAISED, Placing
from shoal.core.groups.pool import Pool
from shoal.core.groups.promises import Promises
from shoal.core.groups.sweep import Sweep
from shoal.core.policy.policy import Policy
from shoal.core.policy.strategy import required_ratio


@dataclass
class Formation:
    """What became of the pool: each unit's group, numbered from 0, or ALONE; and values not shown as themselves."""

    group: Rows
    groups: int
    raised: dict[int, dict[int, int]]  # unit -> leaf -> the node it is shown as
    breach: float
    counterfeits: dict[int, dict[int, int]] = field(default_factory=dict)  # group -> leaf -> how many are nobody's


def form_groups(
    pool: Pool, ledger: Ledger, policy: Policy, spare: Mapping[int, int], breach_so_far: float = 0.0
) -> Formation:
    """Group the pool, which stands in sweep order; `spare` says how many rows each cell can do without.

    The largest breach may be reported too small where it is under `breach_so_far`.
    """
    is_left_out = _near_guards(pool, policy)
    is_left_out[list(pool.barred)] = True
    is_left_out[[unit for tie in pool.ties for unit in tie]] = True
    promises = Promises(pool, ledger, policy)
    grouping = Grouping(deal(pool, ledger, policy, is_left_out, breach_so_far), promises)
    bind(pool, promises, grouping)
    sweep, placing = Sweep(promises, policy, grouping), Placing(pool, promises, policy, grouping)
    left = sweep.run(np.flatnonzero(grouping.group == ALONE).tolist(), is_hard=False)
    left = [unit for unit in left if not placing.place(unit, AS_IT_IS)]
    left = [unit for unit in left if not placing.place(unit, RAISED)]
    left = sweep.run(left, is_hard=True)
    left = [unit for unit in left if not placing.place(unit, HIDDEN)]
    _withhold_or_suppress(left, pool, promises, grouping, dict(spare))
    breach = min(grouping.largest_breach(), 1 / policy.l)
    return Formation(grouping.group, grouping.count, grouping.raised, breach)


def _near_guards(pool: Pool, policy: Policy) -> NDArray[np.bool_]:
    """Units to be looked at one by one: those with a guard, and neighbours enough for a group around each."""
    guarded = np.array([guard is not None for guard in pool.known_guards], dtype=bool)[pool.guard_of]
    if not guarded.any():
        return guarded
    bounds = [guard.bound for guard in pool.guards if guard is not None and guard.bound is not None]
    company = math.ceil(required_ratio(policy.strategy, 1 / min([1 / policy.l, *bounds]), 1.0, 0)) + 1
    if 2 * company >= len(pool):
        return np.ones(len(pool), dtype=bool)
    near = np.convolve(guarded.astype(np.int64), np.ones(2 * company + 1, dtype=np.int64), mode="same")
    return np.asarray(near > 0)


def _withhold_or_suppress(
    left: list[int], pool: Pool, promises: Promises, grouping: Grouping, spare: dict[int, int]
) -> None:
    """Step 6. Units that are withheld stay ALONE."""
    hidden = []
    for unit in left:
        cell = int(pool.cells[unit])
        if spare.get(cell, 0) > 0:
            spare[cell] -= 1
        else:
            hidden.append(unit)
    if hidden:
        target, raised = promises.requirements.target, grouping.raised
        raised.update({unit: dict.fromkeys(target(unit).hidden, 0) for unit in hidden})
        if promises.wrong(hidden, raised) is not None:  # a guard of one covers an open value of another
            raised.update({unit: dict.fromkeys(pool.sets[unit], 0) for unit in hidden})
        grouping.form(hidden, {})
