"""How a release is made: `plan(state, window, policy, number)`, the steps of the design, each one call.

(docs/design.md, "How a release is made".) Two models of what the adversary may take for granted share the steps: values
that are redrawn all the time, and values that last. What differs stands side by side in `redrawn.py` and `lasting.py`.

Pure and deterministic: no clock, no I/O, randomness only from the state's keyed generator. The state is not touched;
what is to become of it is returned as a `Change`, to be sealed before anyone sees the release, and applied after.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Protocol

from shoal.core.change import interim, translated
from shoal.core.conclude import conclude
from shoal.core.draft import Decided, Draft, Plan
from shoal.core.errors import CoreError
from shoal.core.fold import Folded, Window
from shoal.core.lasting import Lasting
from shoal.core.parts import PartPlan
from shoal.core.policy.policy import Policy
from shoal.core.redrawn import Redrawn
from shoal.core.release import Release
from shoal.core.state import State

__all__ = ["Plan", "Window", "decide", "plan", "plan_only_part"]


class Model(Protocol):
    """What a model does between the fold and the bytes."""

    def break_groups(self, folded: Folded) -> None: ...
    def close_cells(self) -> None: ...
    def update_cohorts(self) -> None: ...
    def overlap(self) -> None: ...
    def form_groups(self) -> None: ...
    def charge(self) -> None: ...
    def decided(self) -> Decided: ...


MODELS: Final[Mapping[str, Callable[[Draft], Model]]] = {"redrawn": Redrawn, "lasting": Lasting}


def plan(state: State, window: Window, policy: Policy, number: int, changed: Policy | None = None) -> Plan:
    """The next release of a table with one shard, with which the policy `changed` takes over, unless it is None.

    Raises CoreError if `number` is not the next one, or `changed` may not follow.
    """
    part = plan_only_part(state, window, policy, number, changed)
    manifest, meta, *_ = conclude(policy, changed, state.meta, window.at, [part.summary])
    change = replace(part.change, meta=meta._replace(next_group=part.change.meta.next_group))
    release = Release(number, part.cells, part.groups, manifest, part.members, part.cohorts, part.gone)
    return Plan(release, change, part.misrouted)


def plan_only_part(
    state: State, window: Window, policy: Policy, number: int, changed: Policy | None = None
) -> PartPlan:
    """All of a release but its manifest; raises as `plan` does. A table with several shards has `plan_part`."""
    if number != state.meta.release + 1:
        raise CoreError(f"release {number} cannot follow release {state.meta.release}")
    during = policy if changed is None else interim(policy, changed)
    draft = Draft(state, during, number)
    folded, decided = decide(draft, MODELS[policy.values](draft), window)
    if changed is None:
        return draft.emit(folded, decided, state.meta.policy)
    made = draft.emit(folded, decided, changed.digest)
    return replace(made, change=translated(made.change, changed))


def decide(draft: Draft, model: Model, window: Window) -> tuple[Folded, Decided]:
    """The steps of a table or of one of its shards (`core/shards/`), up to what is to be written."""
    folded = draft.fold_window(window)
    model.break_groups(folded)
    draft.grow_tree(folded)
    model.close_cells()
    model.update_cohorts()
    model.overlap()
    model.form_groups()
    model.charge()
    return folded, model.decided()
