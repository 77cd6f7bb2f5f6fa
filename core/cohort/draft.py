"""The draft of one release's cohorts: everything that the update of roles works on, by name."""

from collections.abc import Mapping, Set
from dataclasses import dataclass

from shoal.core.cells.tree import Tree
from shoal.core.cohort.clique import Cohorts
from shoal.core.cohort.registration import Mask, Registration
from shoal.core.groups.ledger import Ledger
from shoal.core.people import People


@dataclass(frozen=True)
class CohortDraft:
    """One release's cohorts while they are brought up to date.

    `size` is that of a clique; `known` is Bu's K, of how many people the adversary knows whether they are published,
    and 0 with `participation: all`. `has_role` marks people with a role for any value and is kept up to date.
    `overlapping` are, by value, the holders whom an external group shows with it: beside that their value must be "*"
    (docs/design.md, "G5 Composition").
    """

    cohorts: Cohorts
    people: People
    tree: Tree
    ledger: Ledger
    registration: Registration
    has_role: Mask
    overlapping: Mapping[int, Set[int]]
    size: int
    known: int
