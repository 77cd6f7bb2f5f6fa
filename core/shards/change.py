"""A change of policy in a table with shards: each shard's part of the release, and the regions of the shards after it.

Each shard is translated on its own (`core/change.py`). The cuts keep their places between labels that existed before.
New labels belong to the shard of the old label before them.
"""

from dataclasses import replace

from shoal.core.cells.shard import Shard
from shoal.core.change import Translation, has_new_labels, interim, translated
from shoal.core.policy.policy import Policy
from shoal.core.shards.cuts import Cuts
from shoal.core.shards.moves import ShardWindow
from shoal.core.shards.part import PartPlan, plan_part
from shoal.core.state import State

__all__ = ["change_cuts", "interim", "plan_part_change"]


def plan_part_change(state: State, window: ShardWindow, policy: Policy, number: int, shard: Shard) -> PartPlan:
    """A shard's part of the release at which `policy` takes the place of the state's. Raises CoreError if it may not.

    `shard` has its region in the leaves of the policy before.
    """
    between = interim(state.policy, policy)
    made = plan_part(state, window, between, number, shard, previous_policy=state.meta.policy)
    return replace(made, change=translated(made.change, policy))


def change_cuts(cuts: Cuts, old: Policy, new: Policy) -> Cuts:
    """The regions of the shards once `new` has taken over; `cuts` has them in the leaves of `old`."""
    if not has_new_labels(old, new):
        return cuts
    node = Translation(old, new).node
    return Cuts(new, {number: node(record) for number, record in cuts.nodes.items()})
