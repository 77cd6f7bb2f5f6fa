"""S4, symmetric: each group shows one signature, each of its values equally often, or is plain, starred or a clique.

Anyone can check it (docs/design.md, "Values that last"; after m-invariance, Xiao and Tao 2007). Counterfeits are
surplus values: rows and counterfeits together are the values shown, and their share is limited.
"""

from fractions import Fraction
from typing import Final

from shoal.core.audit.criteria.lasting.terms import STAR, Kind, Signature, Terms
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Group, Published
from shoal.core.audit.reading.truth import exact

UNEQUAL: Final = "a group does not show each value of its signature equally often"
UNCOUNTED: Final = "a group does not show as many values as it has rows and counterfeits"
TOO_SMALL: Final = "a signature has fewer values than the policy asks for"
STAR_AMONG: Final = 'a group shows "*" beside other values'
OPEN_AMONG: Final = "a signature holds an open value"
PERMANENT_AMONG: Final = "a signature holds permanent values and others"
UNEVEN: Final = "the members of a signature have not equally many leaves"
NESTED: Final = "a signature holds a value and a node above it"
BARE_COUNTERFEITS: Final = "a group without a signature has counterfeits"
CLIQUE: Final = "a clique's group does not show its value once for at least l rows"
GROUP_SHARE: Final = "more than a quarter of a group's values are counterfeits"
RELEASE_SHARE: Final = "counterfeits are a larger share of a release than the policy allows"

_LARGEST_SHARE = Fraction(1, 4)


class Symmetry:
    """What groups of a lasting table show by themselves. `shown` counts how often cliques show permanent values."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self.signatures: set[Signature] = set()
        self.permanent_shown = 0
        self.values: dict[Kind, int] = dict.fromkeys(Kind, 0)  # shown in the last release, counterfeits aside

    def see(self, release: Published, findings: Findings) -> None:
        self.values = dict.fromkeys(Kind, 0)
        counterfeits = rows = 0
        for name, group in release.groups.items():
            kind = self._terms.kind(group)
            counterfeits, rows = counterfeits + group.counterfeits, rows + group.rows
            self.values[kind] += sum(group.shown.values()) - group.counterfeits
            for promise, sentence in self._wrong(kind, group):
                findings.say(promise, sentence, release.number, name)
        is_over = counterfeits > exact(0.02) * (rows + counterfeits)
        findings.say(Promise.CONTRACT, RELEASE_SHARE, release.number, times=int(is_over))

    def _wrong(self, kind: Kind, group: Group) -> list[tuple[Promise, str]]:
        values = sum(group.shown.values())
        if kind is Kind.CLIQUE:
            self.permanent_shown += values
            is_right = values == 1 and group.rows >= self._terms.cohorts and not group.counterfeits
            return [] if is_right else [(Promise.G3, CLIQUE)]
        found = []
        if values != group.rows + group.counterfeits:
            found.append((Promise.G2, UNCOUNTED))
        if kind is not Kind.SIGNATURE:
            return found + [(Promise.G2, BARE_COUNTERFEITS)] * bool(group.counterfeits)
        if group.counterfeits > _LARGEST_SHARE * values:
            found.append((Promise.CONTRACT, GROUP_SHARE))
        if len(set(group.shown.values())) > 1:
            found.append((Promise.G2, UNEQUAL))
        signature = frozenset(group.shown)
        if signature not in self.signatures:
            self.signatures.add(signature)
        return found + [(Promise.G2, sentence) for sentence in self._wrong_signature(signature)]

    def _wrong_signature(self, signature: Signature) -> list[str]:
        terms = self._terms
        if STAR in signature:
            return [STAR_AMONG]
        leaves, counts = terms.leaves(signature), [terms.leaf_count(node) for node in signature]
        wrong = {
            TOO_SMALL: len(signature) < terms.m,
            OPEN_AMONG: bool(leaves & terms.open),
            PERMANENT_AMONG: bool(leaves & terms.permanent) and not leaves <= terms.permanent,
            UNEVEN: len(set(counts)) > 1,
            NESTED: sum(counts) != len(leaves),
        }
        return [sentence for sentence, is_so in wrong.items() if is_so]
