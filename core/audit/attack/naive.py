"""Two naive publishers, to show on somebody's own data what would have gone wrong with them.

`mondrian` publishes a table by itself: cut at the median of the widest attribute while both sides keep k rows, and show
the bounding box of what is left (LeFevre's strict Mondrian, as Pei, section 1, publishes each release with it).
`bucketize` publishes groups in which no value is more frequent than 1/ℓ, drawn anew each time (the localized guarantee
of Wong, section 1). Both are small on purpose, and neither remembers anything.
"""

import heapq
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from hashlib import blake2b

from shoal.core.audit.reading.regions import Qid, Region, just_above
from shoal.core.audit.reading.truth import Record, exact
from shoal.core.policy.policy import Attribute, Policy

ROOMS = 200  # groups that somebody left over is offered to


def mondrian(attributes: Sequence[Attribute], k: int, qids: Mapping[str, Qid]) -> dict[str, Region]:
    """The region of everyone in a table; nobody's if there are fewer than k people."""
    found: dict[str, Region] = {}
    waiting = [list(qids)] if len(qids) >= k else []
    while waiting:
        people = waiting.pop()
        sides = _part(attributes, k, qids, people)
        if sides is None:
            box = _bounding_box(attributes, [qids[person] for person in people])
            found.update(dict.fromkeys(people, box))
        else:
            waiting.extend(sides)
    return found


def _part(
    attributes: Sequence[Attribute], k: int, qids: Mapping[str, Qid], people: list[str]
) -> tuple[list[str], list[str]] | None:
    if len(people) < 2 * k:
        return None
    columns = list(zip(*(qids[person] for person in people), strict=True))
    widths = []
    for axis, (attribute, column) in enumerate(zip(attributes, columns, strict=True)):
        domain = attribute.high - attribute.low
        widths.append(((max(column) - min(column)) / domain if domain else 0.0, axis))
    for width, axis in sorted(widths, reverse=True):
        if not width:
            break
        middle = sorted(columns[axis])[len(people) // 2]
        left = [person for person, value in zip(people, columns[axis], strict=True) if value < middle]
        if k <= len(left) <= len(people) - k:
            return left, [person for person, value in zip(people, columns[axis], strict=True) if value >= middle]
    return None


def _bounding_box(attributes: Sequence[Attribute], qids: Sequence[Qid]) -> Region:
    """Numbers as their range, categories as the lowest node above all of them."""
    low: list[float] = []
    high: list[float] = []
    for attribute, column in zip(attributes, zip(*qids, strict=True), strict=True):
        least, most = min(column), max(column)
        if attribute.hierarchy is not None:
            node = attribute.hierarchy.covering(int(least), int(most) + 1)
            low.append(attribute.hierarchy.first[node])
            high.append(attribute.hierarchy.last[node])
        else:
            low.append(least)
            high.append(most + 1 if attribute.kind == "int" else just_above(most))
    return Region(tuple(low), tuple(high))


def bucketize(policy: Policy, table: Mapping[str, Record], number: int) -> list[list[str]]:
    """Groups in which at most one person in ℓ shows any protected value; who fits nowhere is left out.

    Anatomy's way: everyone goes to a bucket by protected values, and a group takes one from each of the fullest. Within
    buckets the order differs from release to release, so groups are redrawn each time.
    """
    size, salt = math.ceil(exact(policy.l)), f"{number}/".encode()
    buckets: dict[frozenset[int], list[str]] = {}
    for person in sorted(table, key=lambda person: blake2b(salt + person.encode(), digest_size=8).digest()):
        buckets.setdefault(table[person].values - policy.sensitive.open, []).append(person)
    fullest = [(-len(people), place, values) for place, (values, people) in enumerate(buckets.items())]
    heapq.heapify(fullest)
    groups: list[tuple[list[str], set[int]]] = []
    left: list[str] = []
    while fullest:
        people: list[str] = []
        shown: set[int] = set()
        taken = []
        while fullest and len(people) < size:
            count, place, values = heapq.heappop(fullest)
            if values & shown:
                taken.append((count, place, values))
                continue
            people.append(buckets[values].pop())
            shown |= values
            if buckets[values]:
                # Somebody with nothing to protect is in nobody's way, so their bucket may be taken from again at once.
                heapq.heappush(fullest if not values else taken, (count + 1, place, values))
        for bucket in taken:
            heapq.heappush(fullest, bucket)
        if len(people) == size:
            groups.append((people, shown))
        else:
            left += people
    for person in left:
        protected = table[person].values - policy.sensitive.open
        room = next((group for group in groups[-ROOMS:] if not group[1] & protected), None)
        if room is not None:
            room[0].append(person)
            room[1].update(protected)
    return [people for people, _ in groups]


def shares_of_group(policy: Policy, table: Mapping[str, Record], people: Sequence[str]) -> dict[int, Fraction]:
    """w(s, G) / n(G) of a group that shows everything."""
    found: dict[int, Fraction] = {}
    for person in people:
        for leaf in table[person].values - policy.sensitive.open:
            found[leaf] = found.get(leaf, Fraction(0)) + Fraction(1, len(people))
    return found
