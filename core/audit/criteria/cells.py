"""G1, cells: regions of one tree, each shared by at least k people, that only ever get finer (Pei, section 4.2).

`Regions` is what anyone can check. `Places` needs to know who is where: Pei's two conditions for monotonic incremental
anonymization, each until quasi-identifiers change. Comparing everyone with everyone would be quadratic; instead the
sequence of cells somebody was seen in is given a number, equal sequences the same one, and only people who share a cell
now but have different sequences are compared.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.onetree import find_crossing, find_knots
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.regions import Region
from shoal.core.audit.reading.view import Secrets

UNDER_K = "a region is shared by fewer than k people"
TWO_REGIONS = "a cell has two regions"
TWO_CELLS = "a region has two cells"
CROSSING = "a region overlaps another without one holding the other"
NO_TREE = "regions cannot be the nodes of one tree"
NOT_HELD = "a region does not hold the person in it"
NOT_FINER = "a person's region is not inside their earlier one"
TOGETHER_AGAIN = "two people once told apart share a region"


class Regions:
    """What regions show by themselves."""

    def __init__(self) -> None:
        self._regions: dict[str, Region] = {}
        self._cells: dict[Region, str] = {}
        self._is_one_tree = True

    def see(self, release: Published, findings: Findings) -> None:
        for cell, people in release.people.items():
            findings.say(Promise.G1, UNDER_K, release.number, cell, int(people < release.epoch.policy.k))
        fresh: set[Region] = set()
        for name, region in release.regions.items():
            if region not in self._cells:
                fresh.add(region)
            if self._regions.setdefault(name, region) != region:
                findings.say(Promise.G1, TWO_REGIONS, release.number, name)
            if self._cells.setdefault(region, name) != name:
                findings.say(Promise.G1, TWO_CELLS, release.number, name)
        if not fresh or not self._is_one_tree:
            return  # once broken, everything that follows would only repeat it
        for knot in find_knots(self._cells):
            self._is_one_tree = False
            crossing = find_crossing(knot)
            for region in sorted(crossing & fresh or crossing):
                findings.say(Promise.G1, CROSSING, release.number, self._cells[region])
            if not crossing:
                findings.say(Promise.G1, NO_TREE, release.number)


@dataclass
class _Trace:
    """Somebody's cells since their quasi-identifiers last changed: the release of that, the last cell, the sequence."""

    since: int
    cell: str
    sequence: int


@dataclass
class _Sequence:
    """A sequence of (release, cell), as the one it extends and its last step."""

    before: int
    release: int
    cell: str
    next: dict[tuple[int, str], int] = field(default_factory=dict)


class Places:
    """What regions do to the people in them."""

    def __init__(self) -> None:
        self._regions: dict[str, Region] = {}
        self._traces: dict[str, _Trace] = {}
        self._sequences = [_Sequence(-1, 0, "")]

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        self._regions = {**release.regions, **self._regions}
        sharing: dict[str, set[int]] = defaultdict(set)
        for person, cell in secrets.homes.items():
            if not release.regions[cell].holds(secrets.table[person].qid):
                findings.say(Promise.G1, NOT_HELD, release.number, cell)
            trace, since = self._traces.get(person), secrets.since[person]
            if trace is None or trace.since != since:
                trace = self._traces[person] = _Trace(since, cell, 0)
            elif not self._regions[cell].is_inside(self._regions[trace.cell]):
                findings.say(Promise.G1, NOT_FINER, release.number, cell)
            trace.cell, trace.sequence = cell, self._extend(trace.sequence, release.number, cell)
            sharing[cell].add(trace.sequence)
        for cell, sequences in sharing.items():
            if len(sequences) > 1 and self._were_apart(sequences):
                findings.say(Promise.G1, TOGETHER_AGAIN, release.number, cell)

    def _extend(self, sequence: int, release: int, cell: str) -> int:
        following = self._sequences[sequence].next
        number = following.setdefault((release, cell), len(self._sequences))
        if number == len(self._sequences):
            self._sequences.append(_Sequence(sequence, release, cell))
        return number

    def _were_apart(self, sequences: set[int]) -> bool:
        """Whether two people with these sequences were ever seen in different cells of one release.

        A sequence begins anew when its person's quasi-identifiers change, so whatever is in it still counts.
        """
        cells: dict[int, str] = {}
        done: set[int] = {0}
        for sequence in sequences:
            while sequence not in done:
                done.add(sequence)
                step = self._sequences[sequence]
                if cells.setdefault(step.release, step.cell) != step.cell:
                    return True
                sequence = step.before
        return False
