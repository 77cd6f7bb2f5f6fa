"""Other publishers' groups, taken together where their regions meet, and who was ever in them.

Somebody is in another's group e if their quasi-identifiers were ever in its region. Groups whose regions meet, directly
or through others, are one *neighbourhood*: an adversary can chain them (docs/design.md, "Values that last"). Regions
are compared pair by pair: new ones with all, which costs the square of how many there are.
"""

from collections.abc import Mapping, Sequence

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

    def of(self, person: str) -> frozenset[Neighbourhood]:
        """The neighbourhoods that somebody was ever in."""
        found = self._in.get(person)
        if found is None:
            groups = {at for qid in self._qids.get(person, ()) for at in self._atlas.groups_at(qid)}
            found = self._in[person] = frozenset(self._of[at] for at in groups)
        return found

    def _join(self, others: Sequence[Other]) -> None:
        parent = list(range(len(others)))

        def root(at: int) -> int:
            while parent[at] != at:
                parent[at] = parent[parent[at]]
                at = parent[at]
            return at

        for joined in set(self._of):
            first = min(joined)
            for at in joined:
                parent[at] = first
        for at in range(len(self.others), len(others)):
            for before in range(at):
                if root(before) != root(at) and _meet(others[at], others[before]):
                    parent[root(at)] = root(before)
        members: dict[int, set[int]] = {}
        for at in range(len(others)):
            members.setdefault(root(at), set()).add(at)
        whole = {first: frozenset(joined) for first, joined in members.items()}
        self._of = [whole[root(at)] for at in range(len(others))]
        self.others = list(others)
        self._atlas = Atlas(self._attributes, self.others)


def _meet(one: Other, other: Other) -> bool:
    return any(all(map(_share, mine, theirs)) for mine in one.regions for theirs in other.regions)


def _share(one: Runs, other: Runs) -> bool:
    """Whether two sides have a point in common; a side without runs is everywhere."""
    if not one or not other:
        return True
    return any(low < end and start < high for low, high in one for start, end in other)
