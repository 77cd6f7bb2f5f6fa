"""S3, few: at most f = ⌊(m − c)/ℓ⌋ different values of one person are ever shown under one signature; all or nothing.

A "*" that depends on the value tells it. So while there is one protected value that somebody might get and that could
only be "*", nothing of theirs is shown for the first time, whatever it is; and of several, one release shows only as
many as would be safe wherever they lay (docs/design.md, "Values that last"). Of the reasons for such a "*" this
criterion sees three: a signature of theirs is full; some, but too few for a signature, of the values of one kind lie
outside; or a value of theirs was shown plainly and would not be now. Guards and other publishers have their own.
"""

from typing import Final

from shoal.core.audit.criteria.lasting.history import History, Known
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Secrets

TOO_MANY: Final = "S3: more values of a person are shown under one signature than it may hide"
FULL: Final = "S3: a value is shown for the first time for somebody who could get one that could only be suppressed"


class Few:
    """Counts the different values that were shown of somebody under each signature."""

    def __init__(self, history: History) -> None:
        self._history, self._terms = history, history.terms

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        kinds = self._terms.kinds(release.epoch)
        for person in self._history.now:
            fresh = self._history.fresh(person)
            if not fresh:
                continue
            known, after, guard = self._history.of(person), self._history.after(person), secrets.table[person].guard
            for one in fresh:
                assert one.signature is not None
                is_over = len(after[one.signature]) > self._terms.most_values(one.signature)
                findings.say(Promise.G2, TOO_MANY, release.number, one.group, int(is_over))
            is_plain = bool(known.plain - self._terms.open) and not (guard is not None and guard.node is None)
            if is_plain or not self._is_safe(known, len(fresh), kinds):
                findings.say(Promise.G2, FULL, release.number, fresh[0].group)

    def _is_safe(self, known: Known, count: int, kinds: list[frozenset[int]]) -> bool:
        """Whether so many values could be shown for the first time wherever they lay."""
        most = self._terms.most_values
        if any(len(values) + count > most(signature) for signature, values in known.values.items()):
            return False
        taken = frozenset(known.plain).union(*known.values)
        return not any(0 < len(kind - taken) < self._terms.m for kind in kinds)
