"""The pool: the people who need a group in this release, in the order of the sweep, as columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.events.guard import Guard
from shoal.core.groups.weight import open_leaves
from shoal.core.people import People
from shoal.core.person import Values
from shoal.core.policy.policy import Policy
from shoal.core.runs import each_between


class Ties(NamedTuple):
    """People of the pool who must be published together, by row, and values that must be "*" for it.

    See docs/design.md, "G3 Permanent". `excluded` are, by the place of a tie, the people who must not be in its group;
    `least` is, by cell, how many rows must be published there. If ties `are_apart`, no two of them are in one group.
    """

    members: list[list[int]]
    covers: dict[int, set[int]]
    excluded: Mapping[int, NDArray[np.bool_]] = MappingProxyType({})
    least: Mapping[int, int] = MappingProxyType({})
    are_apart: bool = False


NO_TIES = Ties([], {})


def _protected_share(people: People, policy: Policy) -> float:
    charged_to_nobody = policy.sensitive.open | policy.sensitive.permanent
    shows = np.array([not charged_to_nobody.issuperset(values) for values in people.sets.items], dtype=bool)
    is_sampled = people.is_sampled()
    present = int(np.count_nonzero(is_sampled))
    return int(np.count_nonzero(shows[people.set] & is_sampled)) / present if present else 1.0


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Unit i of the pool is person `rows[i]`. Of all their values together, `owner[j]` shows value `leaf[j]`."""

    rows: Rows
    cells: Rows
    set_of: NDArray[np.int32]  # codes of sets of values
    guard_of: NDArray[np.int32]  # codes of guards
    known_sets: list[Values] = field(repr=False)  # by code
    known_guards: list[Guard | None] = field(repr=False)
    owner: Rows
    leaf: Rows
    is_protected: NDArray[np.bool_]  # of each (owner, leaf)
    exposed: Rows  # one line for each exposure: the units in order, and their groups, newest first
    exposed_to: Rows
    protected_share: float  # of all people who may be published, the share that shows a protected value
    ties: list[list[int]] = field(default_factory=list, repr=False)  # units that must be published in one group
    covers: dict[int, dict[int, int]] = field(default_factory=dict, repr=False)  # unit -> leaf -> 0: it is "*"
    excluded: dict[int, NDArray[np.bool_]] = field(default_factory=dict, repr=False)  # tie -> units not to be with it
    are_ties_apart: bool = False  # no two in one group
    barred: Mapping[int, Values] = field(default_factory=dict)  # by unit: values that can only be shown as "*" (G5)

    @classmethod
    def of(
        cls,
        people: People,
        rows: Rows,
        policy: Policy,
        ties: Ties = NO_TIES,
        barred: Mapping[int, Values] = MappingProxyType({}),
    ) -> "Pool":
        """The people of these rows, in this order. `barred` is by unit."""
        codes = people.set[rows]
        sizes = np.array([len(values) for values in people.sets.items], dtype=np.int64)
        flat = np.array([leaf for values in people.sets.items for leaf in values], dtype=np.int64)
        begins = (np.cumsum(sizes) - sizes)[codes]
        leaf = flat[each_between(begins, sizes[codes])]
        unit_of = {row: unit for unit, row in enumerate(rows.tolist())} if ties.members else {}
        exposed, exposed_to = people.exposures(rows)
        by_unit = np.argsort(exposed, kind="stable")
        return cls(
            rows=rows,
            cells=people.leaf[rows],
            set_of=codes,
            guard_of=people.guard[rows],
            known_sets=people.sets.items,
            known_guards=people.guards.items,
            owner=np.repeat(np.arange(len(rows)), sizes[codes]),
            leaf=leaf,
            is_protected=~open_leaves(policy)[leaf],
            exposed=exposed[by_unit],
            exposed_to=exposed_to[by_unit],
            protected_share=_protected_share(people, policy),
            ties=[sorted(unit_of[row] for row in tie) for tie in ties.members],
            covers={unit_of[row]: dict.fromkeys(leaves, 0) for row, leaves in ties.covers.items()},
            excluded={tie: is_excluded[rows] for tie, is_excluded in ties.excluded.items()},
            are_ties_apart=ties.are_apart,
            barred=barred,
        )

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def sets(self) -> list[Values]:
        """The values of each unit, for the few units that are looked at one by one."""
        return [self.known_sets[code] for code in self.set_of.tolist()]

    @cached_property
    def guards(self) -> list[Guard | None]:
        """The guard of each unit."""
        return [self.known_guards[code] for code in self.guard_of.tolist()]

    def exposures(self, unit: int) -> list[int]:
        """The groups that one unit was in."""
        found: list[int] = self.exposed_to[self.exposure_bounds[unit] : self.exposure_bounds[unit + 1]].tolist()
        return found

    @cached_property
    def exposure_bounds(self) -> Rows:
        """Where each unit's exposures begin, and the end of the last."""
        return np.searchsorted(self.exposed, np.arange(len(self) + 1))
