"""Values shown as they are, for ever once they are: open ones, and those of a person with the empty guard.

An entry once shown plainly is plain or "*" for ever, and one that has a signature keeps it: shown both ways it would
give its group mates away (docs/design.md, "Values that last").
"""

from typing import Final

from shoal.core.audit.criteria.lasting.history import History, Known, Sighting
from shoal.core.audit.criteria.lasting.terms import Kind
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Secrets

NOT_ALLOWED: Final = "a value is shown plainly that is neither open nor of somebody with the empty guard"
PERMANENT: Final = "a permanent value is shown plainly"
SIGNED_BEFORE: Final = "a value that had a signature is shown plainly"
PLAIN_BEFORE: Final = "a value that was shown plainly is shown under a signature"


class Plain:
    """Checks who and what is shown plainly."""

    def __init__(self, history: History) -> None:
        self._history, self._terms = history, history.terms

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        for person, seen in self._history.now.items():
            known, guard = self._history.of(person), secrets.table[person].guard
            is_empty = guard is not None and guard.node is None
            for one in seen:
                for sentence in self._wrong(one, known, is_empty):
                    findings.say(Promise.G2, sentence, release.number, one.group)

    def _wrong(self, one: Sighting, known: Known, has_empty_guard: bool) -> list[str]:
        if one.kind is Kind.SIGNATURE:
            return [PLAIN_BEFORE] if one.leaf in known.plain else []
        if one.kind is not Kind.PLAIN:
            return []
        is_allowed = one.leaf in self._terms.open or has_empty_guard or one.leaf in known.plain
        wrong = {
            NOT_ALLOWED: not is_allowed,
            PERMANENT: one.leaf in self._terms.permanent,
            SIGNED_BEFORE: one.leaf in known.signature,
        }
        return [sentence for sentence, is_so in wrong.items() if is_so]
