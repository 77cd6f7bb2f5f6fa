"""S1, sticky: the same person with the same value has the same signature for ever (docs/design.md, "Values that last").

Through other people's changes, moves, absence, deletion, another value in between and another guard.
"""

from typing import Final

from shoal.core.audit.criteria.lasting.history import History
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Secrets

OTHER_SIGNATURE: Final = "S1: a value of a person is shown under another signature than before"


class Sticky:
    """Compares every signature with the first that the same value of the same person had."""

    def __init__(self, history: History) -> None:
        self._history = history

    def see(self, release: Published, _: Secrets, findings: Findings) -> None:
        for person, seen in self._history.now.items():
            signatures = self._history.of(person).signature
            for one in seen:
                if one.signature is not None and signatures.get(one.leaf, one.signature) != one.signature:
                    findings.say(Promise.G2, OTHER_SIGNATURE, release.number, one.group)
