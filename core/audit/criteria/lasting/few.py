"""S3, few: at most ⌊m/ℓ⌋ different values of one person are ever shown under one signature; and all or nothing.

A "*" that depends on the value tells it. So while there is one protected value that somebody might get and that could
only be "*", nothing of theirs is shown for the first time, whatever it is; and of several, one release shows only as
many as would be safe wherever they lay (docs/design.md, "Values that last"). Of the reasons for such a "*" the audit
sees two: a signature of theirs is full, or some, but too few for a signature, of the transient values lie outside.
"""

from typing import Final

from shoal.core.audit.criteria.lasting.history import History, Known
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Secrets

TOO_MANY: Final = "S3: more than m/l different values of a person are shown under one signature"
FULL: Final = "S3: a value is shown for the first time for somebody who could get one that could only be suppressed"


class Few:
    """Counts the different values that were shown of somebody under each signature."""

    def __init__(self, history: History) -> None:
        self._history, self._terms = history, history.terms

    def see(self, release: Published, _: Secrets, findings: Findings) -> None:
        possible = self._possible(release)
        for person, seen in self._history.now.items():
            known = self._history.of(person)
            fresh = {}
            for one in seen:
                if one.signature is not None and one.leaf not in known.values.get(one.signature, ()):
                    fresh[one.leaf] = one
            if not fresh:
                continue
            after = self._history.after(person)
            for one in fresh.values():
                assert one.signature is not None
                is_over = len(after.values[one.signature]) > self._terms.most_values(one.signature)
                findings.say(Promise.G2, TOO_MANY, release.number, one.group, int(is_over))
            unseen = [one for one in fresh.values() if one.leaf not in known.signature]
            if unseen and not self._is_safe(known, len(unseen), possible):
                findings.say(Promise.G2, FULL, release.number, unseen[0].group)

    def _possible(self, release: Published) -> frozenset[int]:
        """The transient values that there were when this release was made."""
        known, leaves = release.epoch.leaves.sensitive.hierarchy, self._terms.labels
        return frozenset(leaf for leaf in self._terms.transient if leaves[leaf] in known.leaf_code)

    def _is_safe(self, known: Known, count: int, possible: frozenset[int]) -> bool:
        """Whether so many values could be shown for the first time wherever they lay."""
        terms = self._terms
        if any(len(values) + count > terms.most_values(signature) for signature, values in known.values.items()):
            return False
        taken = frozenset(known.plain).union(*(terms.leaves(signature) for signature in known.values))
        outside = len(possible - taken)
        return outside == 0 or outside >= terms.m
