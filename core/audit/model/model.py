"""What the auditor asks of a model: the criteria to show each release to, and the figures for the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.truth import Record
from shoal.core.audit.reading.view import Entry, Line, PrivateCriterion, PublicCriterion, Secrets
from shoal.core.audit.report.report import Attacks, PrivateFigures, PublicFigures


@dataclass(frozen=True)
class Placed:
    """Who is where, as far as the membership makes sense; see `Secrets`."""

    homes: Mapping[str, str]
    places: Mapping[str, tuple[str, str]]
    people: Mapping[str, Sequence[str]]
    entries: Mapping[str, Sequence[Entry]]
    lines: Mapping[str, Sequence[Line]]


class Model(Protocol):
    """A model of values. Criteria are shown each release in the order in which they are listed."""

    @property
    def public(self) -> Sequence[PublicCriterion]: ...

    @property
    def private(self) -> Sequence[PrivateCriterion]: ...

    def place(self, release: Published, members: Sequence[Line], table: Mapping[str, Record]) -> Placed: ...

    def attack(self, release: Published, secrets: Secrets, naive: Sequence[Sequence[str]]) -> None:
        """Measures what takes this model to attack; `naive` are groups of the same people, redrawn."""

    def public_figures(self) -> PublicFigures: ...

    def private_figures(
        self, key: bytes, release: Published, secrets: Secrets, people: int, attacks: Attacks
    ) -> PrivateFigures: ...
