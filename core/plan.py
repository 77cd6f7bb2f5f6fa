"""How a release is made: `plan(state, window, policy, number)`, the steps of the design, each one call.

(docs/design.md, "How a release is made".) Two models of what the adversary may take for granted share the steps: values
that are redrawn all the time, and values that last. What differs stands side by side in `redrawn.py` and `lasting.py`.

Pure and deterministic: no clock, no I/O, randomness only from the state's keyed generator. The state is not touched;
what is to become of it is returned as a `Change`, to be sealed before anyone sees the release, and applied after.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from shoal.core.draft import Decided, Draft, Plan
from shoal.core.errors import CoreError
from shoal.core.fold import Folded, Window
from shoal.core.lasting import Lasting
from shoal.core.policy.policy import Policy
from shoal.core.redrawn import Redrawn
from shoal.core.state import State

__all__ = ["Plan", "Window", "decide", "plan"]


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


def plan(state: State, window: Window, policy: Policy, number: int, *, previous_policy: str | None = None) -> Plan:
    """The next release of a table; raises CoreError if `number` is not the next one.

    `previous_policy` is the digest that manifests have named so far, if from this release on they name another.
    """
    if number != state.meta.release + 1:
        raise CoreError(f"release {number} cannot follow release {state.meta.release}")
    draft = Draft(state, policy, number)
    folded, decided = decide(draft, MODELS[policy.values](draft), window)
    return draft.emit(window, folded, decided, previous_policy)


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
