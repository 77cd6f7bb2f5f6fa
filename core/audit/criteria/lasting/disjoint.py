"""S2, equal or disjoint: any two signatures of one person are equal or have no leaf in common.

A value once shown plainly counts as a signature of one (docs/design.md, "Values that last"; after τ-safety). Two
signatures that share some leaves can be intersected, which is the oldest attack there is.
"""

from typing import Final

from shoal.core.audit.criteria.lasting.history import History
from shoal.core.audit.criteria.lasting.terms import Kind
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Secrets

OVERLAPPING: Final = "S2: two signatures of a person have some values in common, and are not equal"
PLAIN_INSIDE: Final = "S2: a value that a person was shown with plainly lies in a signature of theirs"


class Disjoint:
    """Compares what is new for a person with everything they were ever shown under."""

    def __init__(self, history: History) -> None:
        self._history = history

    def see(self, release: Published, _: Secrets, findings: Findings) -> None:
        for person, seen in self._history.now.items():
            known = self._history.of(person)
            mine, plain = set(known.values), set(known.plain)
            for one in seen:
                if one.signature is not None and one.signature not in mine:
                    is_meeting = any(one.signature & other for other in mine)
                    findings.say(Promise.G2, OVERLAPPING, release.number, one.group, int(is_meeting))
                    is_inside = bool(one.signature & plain)
                    findings.say(Promise.G2, PLAIN_INSIDE, release.number, one.group, int(is_inside))
                    mine.add(one.signature)
                elif one.kind is Kind.PLAIN and one.leaf not in plain:
                    is_inside = any(one.leaf in other for other in mine)
                    findings.say(Promise.G2, PLAIN_INSIDE, release.number, one.group, int(is_inside))
                    plain.add(one.leaf)
