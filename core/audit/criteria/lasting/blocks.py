"""G5 in a lasting table: blocks of values that others' groups show equally often.

docs/design.md, "Values that last". For the people of a neighbourhood of others' groups, an entry that was not shown
before takes a block for its signature: at least max(m, α) values that each of these groups shows equally often, perhaps
never; blocks are cut once, so that two of them are equal or disjoint. If some value has no block, nothing of theirs is
shown for the first time. Where a group e comes later, an entry whose signature meets it stays only if each set of its
values that all these groups show equally often has at least max(α, jℓ + c), times the values that its person had when e
came. Open values and permanent ones are not asked.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from shoal.core.audit.criteria.lasting.history import History
from shoal.core.audit.criteria.lasting.neighbourhoods import Neighbourhood, Neighbourhoods
from shoal.core.audit.criteria.lasting.terms import Signature
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.policy import Policy

NOT_A_BLOCK: Final = "a value is shown for the first time among values that another publication does not show alike"
TOO_SMALL: Final = "a value is shown for the first time beside another publication among fewer values than overlap asks"
CUT_TWICE: Final = "two people beside the same publications have blocks that are neither equal nor disjoint"
NO_BLOCK: Final = "a value is shown for the first time although some value has no block beside another publication"
STAYED: Final = "a value is still shown that another publication has left with too few like it"

NEVER = 0  # the number of the values that none of the groups shows

Place = frozenset[Neighbourhood]


class Blocks:
    """Checks every signature beside everything that others had published by then."""

    def __init__(self, policy: Policy, history: History) -> None:
        self._history, self._terms, self._alpha = history, history.terms, policy.overlap
        self._leaves = len(policy.sensitive.hierarchy.leaves)
        self.near = Neighbourhoods(policy)
        self._seen: set[tuple[str, int]] = set()  # entries that were ever shown under a signature
        self._place: dict[str, Place] = {}
        self._barred: set[tuple[str, Signature]] = set()  # what may not be shown any more
        self._cut: dict[Neighbourhood, set[Signature]] = defaultdict(set)
        self._smallest: dict[Neighbourhood, int] = {}  # the fewest transient values that are shown alike
        self._alike: dict[Neighbourhood, Sequence[int]] = {}  # by leaf: a number for all that are shown alike

    @property
    def is_asked(self) -> bool:
        """Whether others have published anything."""
        return bool(self.near.others)

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        if len(self.near.others) < len(secrets.others):
            self._alike, self._smallest = {}, {}
        self.near.look(secrets.others, secrets.table)
        if self.is_asked:
            self._judge(secrets)
        for person, seen in self._history.now.items():
            self._place.setdefault(person, self.near.of(person))
            for one in seen:
                if one.signature is None or one.leaf in self._terms.permanent:
                    continue
                sentence = None
                if (person, one.leaf) not in self._seen:
                    self._seen.add((person, one.leaf))
                    sentence = self._wrong_first(one.signature, self.near.of(person))
                elif (person, one.signature) in self._barred:
                    sentence = STAYED
                if sentence is not None:
                    findings.say(Promise.G5, sentence, release.number, one.group)

    def _wrong_first(self, signature: Signature, place: Place) -> str | None:
        for near in place:
            alike = self.alike(near)
            if len({alike[leaf] for leaf in signature}) > 1:
                return NOT_A_BLOCK
            if len(signature) < max(self._terms.m, self._alpha):
                return TOO_SMALL
            if self._smallest[near] < max(self._terms.m, self._alpha):
                return NO_BLOCK
            if any(signature & other and signature != other for other in self._cut[near]):
                return CUT_TWICE
            self._cut[near].add(signature)
        return None

    def _judge(self, secrets: Secrets) -> None:
        """Decides for everyone who came to be beside others' groups which of their signatures may stay."""
        for person, known in self._history.people.items():
            place = self.near.of(person)
            fresh = place - self._place.get(person, frozenset())
            self._place[person] = place
            for signature, values in known.values.items() if fresh else ():
                needed = max(Fraction(self._alpha), len(values) * self._terms.l + self._terms.insiders)
                needed *= self._count_values(person, secrets)
                for near in fresh:
                    alike = self.alike(near)
                    sizes = Counter(alike[leaf] for leaf in signature)
                    if sizes.keys() == {NEVER}:
                        continue
                    if min(sizes.values()) < needed:
                        self._barred.add((person, signature))

    def _count_values(self, person: str, secrets: Secrets) -> int:
        """How many values somebody has that may be shown under signatures; at least 1."""
        if person not in secrets.table:
            return 1
        values = secrets.table[person].values - self._terms.open
        return max(1, len(values - self._terms.permanent if self._terms.has_cliques else values))

    def alike(self, near: Neighbourhood) -> Sequence[int]:
        """By leaf a number, the same for all that each group of a neighbourhood shows equally often."""
        found = self._alike.get(near)
        if found is None:
            shown: list[list[tuple[int, Fraction]]] = [[] for _ in range(self._leaves)]
            for at in sorted(near):
                for leaf, weight in self.near.others[at].weights.items():
                    shown[leaf].append((at, weight))
            numbers: dict[tuple[tuple[int, Fraction], ...], int] = {(): NEVER}
            found = self._alike[near] = [numbers.setdefault(tuple(one), len(numbers)) for one in shown]
            sizes = Counter(found[leaf] for leaf in self._terms.transient)
            self._smallest[near] = min(sizes.values(), default=0)
        return found
