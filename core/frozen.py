"""The state of a shard as columns: what a file holds that is read as fast as a disk reads, however many people.

A state is frozen into arrays and a few plain things. Thawed, it is the same state, and what would only be slower to
work out again (regions as text, the tails of groups) is there, too. Ids are left to the caller, who may read them from
a file when somebody asks.
"""

from typing import Any, NamedTuple

from numpy.typing import NDArray

from shoal.core.cells.shard import Shard
from shoal.core.overlap.external import as_external
from shoal.core.person import Ids
from shoal.core.policy.policy import Policy
from shoal.core.publication import ShownCells
from shoal.core.randomness import Keyed
from shoal.core.release import Tail
from shoal.core.signatures.bonds import Bond
from shoal.core.state import Meta, State

_PARTS = ("people", "entries", "signatures", "groups", "tree")


class Frozen(NamedTuple):
    """Arrays by name, the rest as plain tuples, numbers and text, and `texts`, without which a state is only slower."""

    arrays: dict[str, NDArray[Any]]
    rest: dict[str, Any]
    texts: dict[str, Any]


def freeze(state: State) -> Frozen:
    """The state of a shard of a lasting table. Copies no array."""
    arrays = {f"{part}.{name}": column for part in _PARTS for name, column in getattr(state, part).freeze().items()}
    shown = state.shown
    if shown is not None:
        arrays |= {f"shown.{name}": column for name, column in shown._asdict().items()}
    assert state.shard is not None
    rest = {
        "meta": tuple(state.meta),
        "shard": tuple(state.shard),
        "sets": state.people.sets.items,
        "guards": state.people.guards.items,
        "trail": state.trail,
        "bonds": state.bonds.bonds,
        "externals": dict(state.externals.records()),
    }
    tails = {group: tuple(tail) for group, tail in state.tails.items()}
    return Frozen(arrays, rest, {"tails": tails, "cells": dict(state.tree.texts)})


def thaw(policy: Policy, keyed: Keyed, frozen: Frozen, ids: Ids) -> State:
    """The inverse. The state takes over the arrays, and may write to them."""
    rest = frozen.rest
    number, box = rest["shard"]
    shard = Shard(number, None if box is None else tuple(map(tuple, box)))
    state = State(policy, keyed, Meta(*rest["meta"]), shard=shard)
    parts: dict[str, dict[str, NDArray[Any]]] = {}
    for name, array in frozen.arrays.items():
        part, _, column = name.partition(".")
        parts.setdefault(part, {})[column] = array
    state.people.thaw(parts["people"], ids, rest["sets"], rest["guards"])
    state.entries.thaw(parts["entries"])
    state.signatures.thaw(parts["signatures"])
    state.groups.thaw(parts["groups"])
    state.tree.thaw(parts["tree"], frozen.texts.get("cells", {}))
    state.trail = dict(rest["trail"])
    state.bonds.put((key, Bond(*bond)) for key, bond in rest["bonds"].items())
    state.externals.put((key, as_external(group)) for key, group in rest["externals"].items())
    state.tails = {group: Tail(*tail) for group, tail in frozen.texts.get("tails", {}).items()}
    state.shown = ShownCells(**parts["shown"]) if "shown" in parts and frozen.texts else None
    return state
