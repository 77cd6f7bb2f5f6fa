"""Whether a set of regions can be the nodes of one tree of cuts, without knowing the tree.

docs/design.md, "G1 Cells"; Pei, section 5. Take any family of nodes of such a tree. Either one of them holds all the
others (it is the family's hull), or the cut at the lowest node above all of them parts them in two and crosses none.
Parting a family of nodes anywhere without crossing one leaves two families of nodes. So: take away the hull or cut
where nothing is crossed, again and again; a family of two or more where neither can be done came from no tree. Cost is
O(n log n) per attribute and level.
"""

from collections.abc import Iterable

from shoal.core.audit.reading.regions import Region


def find_knots(regions: Iterable[Region]) -> list[list[Region]]:
    """The families that no tree of cuts can have made; none if all regions are nodes of one tree."""
    knots = []
    waiting = [list(set(regions))]
    while waiting:
        family = waiting.pop()
        if len(family) < 2:
            continue
        hull = Region(
            tuple(map(min, zip(*(region.low for region in family), strict=True))),
            tuple(map(max, zip(*(region.high for region in family), strict=True))),
        )
        if hull in family:
            family.remove(hull)
            waiting.append(family)
            continue
        cut = _find_cut(family)
        if cut is None:
            knots.append(family)
            continue
        axis, at = cut
        waiting.append([region for region in family if region.high[axis] <= at])
        waiting.append([region for region in family if region.low[axis] >= at])
    return knots


def _find_cut(family: list[Region]) -> tuple[int, float] | None:
    """A cut that crosses no region and has some on either side; the one that parts them most evenly."""
    best: tuple[int, int, float] | None = None  # distance from the middle, axis, place
    for axis in range(len(family[0].low)):
        runs = sorted((region.low[axis], region.high[axis]) for region in family)
        reach = runs[0][1]
        for position, (low, high) in enumerate(runs):
            if position and low >= reach:
                found = (abs(2 * position - len(runs)), axis, low)
                best = found if best is None else min(best, found)
            reach = max(reach, high)
    return None if best is None else best[1:]


def find_crossing(family: list[Region]) -> set[Region]:
    """Those of a family that overlap another without one holding the other; O(n^2)."""
    crossing = set()
    for position, one in enumerate(family):
        for other in family[:position]:
            if not (one.is_disjoint(other) or one.is_inside(other) or other.is_inside(one)):
                crossing |= {one, other}
    return crossing
