"""Other publishers' groups, taken together where their regions meet, and who was ever in them.

Somebody is in another's group e if their quasi-identifiers were ever in its region. Groups whose regions meet, directly
or through others, are one *neighbourhood*: an adversary can chain them (docs/design.md, "Values that last"). Sides of
regions are compared pair by pair in each attribute, of which there are few different ones; then bits do the rest.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from shoal.core.audit.criteria.others import Atlas, Other, Runs
from shoal.core.audit.reading.regions import Qid
from shoal.core.audit.reading.truth import Record
from shoal.core.policy.policy import Policy

Neighbourhood = frozenset[int]  # positions of groups in the order in which they were published


class Neighbourhoods:
    """Which neighbourhoods each person is in, kept up to date."""

    def __init__(self, policy: Policy) -> None:
        self._attributes = policy.attributes
        self.others: list[Other] = []
        self._atlas = Atlas(policy.attributes, ())
        self._of: list[Neighbourhood] = []  # by group
        self._qids: dict[str, list[Qid]] = {}
        self._in: dict[str, frozenset[Neighbourhood]] = {}

    def look(self, others: Sequence[Other], table: Mapping[str, Record]) -> None:
        """Takes in what others have published since, and where everyone is now."""
        fresh = len(self.others) < len(others)
        if fresh:
            self._join(others)
            self._in = {}
        for person, record in table.items():
            known = self._qids.setdefault(person, [])
            if record.qid not in known:
                known.append(record.qid)
                self._in.pop(person, None)

    @property
    def people(self) -> Collection[str]:
        """Everybody who was ever anywhere."""
        return self._qids.keys()

    def of(self, person: str) -> frozenset[Neighbourhood]:
        """The neighbourhoods that somebody was ever in."""
        found = self._in.get(person)
        if found is None:
            groups = {at for qid in self._qids.get(person, ()) for at in self._atlas.groups_at(qid)}
            found = self._in[person] = frozenset(self._of[at] for at in groups)
        return found

    def _join(self, others: Sequence[Other]) -> None:
        self.others = list(others)
        self._atlas = Atlas(self._attributes, self.others)
        owner = [at for at, other in enumerate(self.others) for _ in other.regions]
        regions = [region for other in self.others for region in other.regions]
        meeting = _find_meeting(regions, len(self._attributes))
        mine = [0] * len(self.others)  # by group, its regions: a bit each
        for place, at in enumerate(owner):
            mine[at] |= 1 << place
        whole: dict[int, Neighbourhood] = {}
        for first in range(len(self.others)):
            if first in whole:
                continue
            joined, seen, waiting = {first}, mine[first], mine[first]
            while waiting:
                place = waiting.bit_length() - 1
                fresh = meeting[place] & ~seen
                for at in {owner[other] for other in _bits(fresh)}:
                    joined.add(at)
                    fresh |= mine[at]
                fresh &= ~seen
                seen |= fresh
                waiting = (waiting ^ 1 << place) | fresh
            neighbourhood = frozenset(joined)
            whole.update(dict.fromkeys(joined, neighbourhood))
        self._of = [whole[at] for at in range(len(self.others))]


def _find_meeting(regions: Sequence[tuple[Runs, ...]], attributes: int) -> list[int]:
    """By region, all that have a point in common with it, a bit each: those whose sides meet in every attribute."""
    found = [-1] * len(regions)
    for axis in range(attributes):
        sides: dict[Runs, int] = {}
        for place, region in enumerate(regions):
            sides[region[axis]] = sides.get(region[axis], 0) | 1 << place
        near: dict[Runs, int] = {}
        for side in sides:
            near[side] = 0
            for other, places in sides.items():
                if _share(side, other):
                    near[side] |= places
        for place, region in enumerate(regions):
            found[place] &= near[region[axis]]
    return found


def _share(one: Runs, other: Runs) -> bool:
    """Whether two sides have a point in common; a side without runs is everywhere."""
    if not one or not other:
        return True
    return any(low < end and start < high for low, high in one for start, end in other)


def _bits(number: int) -> Iterator[int]:
    while number:
        yield (number & -number).bit_length() - 1
        number &= number - 1
