"""What an adversary learns about the people at most risk, by keyed pseudonym; checked by brute force where possible.

A pseudonym is a keyed hash that is used for nothing else, so that a report gives nobody away, whoever has the ids, and
cannot be joined with case ids.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from heapq import nlargest
from hmac import digest
from math import prod

from shoal.core.audit.attack.attacks import Persistence
from shoal.core.audit.attack.worlds import Draw, Owners, count_worlds, linked_fraction, tokens_of
from shoal.core.audit.criteria.exposure import Exposures, Standing
from shoal.core.audit.reading.published import Group
from shoal.core.policy.hierarchy import Hierarchy

LISTED = 10
WORLDS = 20_000  # at most so many are gone through for one person
TOKENS = 40  # a group with more values has far more worlds than that


@dataclass(frozen=True)
class Learned:
    """One line of the list: how sure an adversary can be of the worst thing they can be sure of.

    `enumerated` is the share of possible worlds, where there are few enough to go through; `hidden_among` the rows with
    the person's region now, `candidates` the values they could have if values persisted; None if not published now.
    """

    pseudonym: str
    breach: Fraction
    bound: Fraction
    is_guarded: bool
    is_earlier: bool
    formations: int
    enumerated: Fraction | None
    hidden_among: int | None
    candidates: int | None


def list_worst(exposures: Exposures, key: bytes, rows: Mapping[str, int], persistence: Persistence) -> list[Learned]:
    """The ten people who came nearest to their bound. `rows` says how many share the region of each person now."""
    named = ((pseudonym(key, person), person, standing) for person, standing in exposures.worst.items())
    found = []
    for name, person, standing in nlargest(LISTED, named, key=lambda item: (item[2].breach / item[2].bound, item[0])):
        found.append(
            Learned(
                name,
                standing.breach,
                standing.bound,
                standing.is_guarded,
                standing.is_earlier,
                len(standing.groups),
                enumerate_worlds(exposures, standing),
                rows.get(person),
                persistence.size(person) if person in rows else None,
            )
        )
    return found


def pseudonym(key: bytes, person: str) -> str:
    """A name for somebody in a report."""
    return digest(sha256(key).digest(), b"shoal audit\0" + person.encode(), "sha256").hex()[:12]


def enumerate_worlds(exposures: Exposures, standing: Standing) -> Fraction | None:
    """The share of possible worlds that link a person as their standing says; None if there are too many."""
    hierarchy, leaves, draws = exposures.sensitive.hierarchy, frozenset(standing.leaves), []
    for name in standing.groups:
        if leaves & exposures.shares[name].keys():  # other draws are independent and say nothing about these leaves
            draw = draw_of(hierarchy, exposures.published[name], exposures.sensitive.permanent)
            if draw is None:
                return None
            draws.append(draw)
    return linked_fraction(draws, leaves) if prod(map(count_worlds, draws)) <= WORLDS else None


def draw_of(hierarchy: Hierarchy, group: Group, permanent: frozenset[int] = frozenset()) -> Draw | None:
    """A published group as a draw for one of its people, whichever: they are alike. None if it cannot be enumerated.

    Permanent values are taken to be known to sit on others (docs/design.md, "G2 Global"), who are then out of the draw.
    """
    if sum(group.shown.values()) > TOKENS:
        return None
    nodes = {hierarchy.leaf_node[leaf] for leaf in permanent}
    known = sum(count for node, count in group.shown.items() if node in nodes)
    people = max(1, group.rows - known)
    tokens = tokens_of(hierarchy, {node: count for node, count in group.shown.items() if node not in nodes})
    if len(tokens) == people:
        return Draw(people, tokens, 0)
    return None if any(len(token) > 1 for token in tokens) else Draw(people, tokens, 0, Owners.SETS)
