"""What the auditor looks at in one release, and what a criterion is.

Each promise is checked by criteria that see the releases one after the other. A criterion keeps whatever it must
remember, and tells what it finds. One that needs secrets is simply not asked without them.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from shoal.core.audit.criteria.others import Other
from shoal.core.audit.finding import Findings
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.regions import Qid
from shoal.core.audit.reading.truth import Record


class Line(NamedTuple):
    """A line of the membership file: somebody's row. A lasting table's has the value that the row stands for."""

    person: str
    group: str
    cell: str
    value: str | None = None


class Entry(NamedTuple):
    """A row of a lasting table: whose it is, and the leaf it stands for; None for no value."""

    person: str
    leaf: int | None


Cohorts = Mapping[str, Sequence[Sequence[str]]]  # by permanent value: the owners of each cohort, the holders first


@dataclass(frozen=True)
class Secrets:
    """What only the publisher knows at a release: who is published where, and the true table.

    `members` are the lines of the membership file. Of those that make sense `homes` has the cell of each person,
    `people` the people of each group, one for each row, `places` (redrawn) the group and cell of each person, and
    `entries` and `lines` (lasting) the rows by group and by person. `table` has everyone present; `since` the release
    at which someone's quasi-identifiers became what they are, `guarded_since` the one at which a guard last changed
    (absent: never). `at` is the time that the request for the release named. `registered` has where everyone lives who
    is registered, present or not, `extinct` whoever ceased to exist, `held` the permanent values of everyone who ever
    had one, `cohorts` what the engine says of its cohorts, and `others` what other publishers had released by then.
    `erased` are those whom the window erased.
    """

    members: Sequence[Line]
    homes: Mapping[str, str]
    places: Mapping[str, tuple[str, str]]
    people: Mapping[str, Sequence[str]]
    table: Mapping[str, Record]
    since: Mapping[str, int]
    guarded_since: Mapping[str, int]
    at: str | None
    registered: Mapping[str, Qid] = field(default_factory=dict)
    extinct: Set[str] = frozenset()
    held: Mapping[str, frozenset[int]] = field(default_factory=dict)
    cohorts: Cohorts = field(default_factory=dict)
    others: Sequence[Other] = ()
    entries: Mapping[str, Sequence[Entry]] = field(default_factory=dict)
    lines: Mapping[str, Sequence[Line]] = field(default_factory=dict)
    erased: Set[str] = frozenset()


class PublicCriterion(Protocol):
    """Something anyone can check."""

    def see(self, release: Published, findings: Findings, /) -> None: ...


class PrivateCriterion(Protocol):
    """Something that takes secrets to check."""

    def see(self, release: Published, secrets: Secrets, findings: Findings, /) -> None: ...
