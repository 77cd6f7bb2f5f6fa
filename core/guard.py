"""Guards: what one person asks for beyond, or instead of, the table's promise (Xiao-Tao, section 3; DESIGN, G4).

A guard names a node of the sensitive hierarchy: the person must not be linked to *any* of the leaves under it, taken
together, with more than their bound. It takes the place of the promise for single values. The empty guard names
nothing: publish mine as it is.
"""

from typing import Final, NamedTuple

EMPTY: Final = -1


class Guard(NamedTuple):
    """A node of the sensitive hierarchy, or EMPTY; and a bound of one's own, or None for the table's."""

    node: int
    bound: float | None = None


def as_guard(stored: tuple[int, float | None] | None) -> Guard | None:
    """A guard as it came back from storage, where it is a plain pair."""
    return None if stored is None else Guard(*stored)
