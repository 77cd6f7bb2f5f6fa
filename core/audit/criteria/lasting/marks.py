"""Marks: what the other rows of a clique's people say about which of them holds its value.

A clique hides its holder among its people as far as its own rows go. But all of them have other rows, and those can
differ: a holder without another value has a "*", and has one row fewer than a decoy with as many values. Somebody who
argues from that claims that the person who alone has a "*", or alone has the fewest rows, is the holder. Nothing is
promised about it (docs/design.md, "The adversary"), so it is counted and reported: no more than 1/ℓ of such claims
should be right. A clique is counted once for each mark, when it is first seen.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from shoal.core.audit.criteria.lasting.terms import Kind, Terms
from shoal.core.audit.finding import Findings
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Secrets

STAR: Final = 'alone has a "*"'
FEWEST: Final = "alone has the fewest rows"


class Mark(NamedTuple):
    """A mark: in how many cliques one person alone bears it, and in how many of those it is the holder."""

    what: str
    claims: int
    right: int


class Marks:
    """Counts marks. It finds nothing wrong."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._claims: dict[str, dict[frozenset[str], bool]] = {STAR: {}, FEWEST: {}}

    def see(self, release: Published, secrets: Secrets, _: Findings) -> None:
        rows: Counter[str] = Counter()
        stars: Counter[str] = Counter()
        cliques: list[tuple[list[str], str]] = []
        for name, entries in secrets.entries.items():
            kind = self._terms.kind(release.groups[name])
            people = [entry.person for entry in entries]
            rows.update(people)
            if kind is Kind.STARRED:
                stars.update(people)
            elif kind is Kind.CLIQUE:
                holders = [entry.person for entry in entries if entry.leaf is not None]
                if len(holders) == 1:
                    cliques.append((people, holders[0]))
        for people, holder in cliques:
            self._claim(STAR, [person for person in people if stars[person]], people, holder)
            self._claim(FEWEST, _fewest(rows, people), people, holder)

    def _claim(self, mark: str, bearers: Sequence[str], people: Sequence[str], holder: str) -> None:
        if len(bearers) == 1:
            self._claims[mark].setdefault(frozenset(people), bearers[0] == holder)

    def result(self) -> tuple[Mark, ...]:
        return tuple(Mark(mark, len(claims), sum(claims.values())) for mark, claims in self._claims.items())


def _fewest(rows: Mapping[str, int], people: Sequence[str]) -> list[str]:
    least = min(rows[person] for person in people)
    return [person for person in people if rows[person] == least]
