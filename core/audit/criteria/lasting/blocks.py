"""G5 in a lasting table: blocks of values that others' groups show equally often.

docs/design.md, "Values that last". For the people of a neighbourhood of others' groups, an entry that was not shown
before takes a block for its signature: at least max(m, α) values that each of these groups shows equally often, perhaps
never; blocks are cut once, so that two of them are equal or disjoint. If some value has no block, nothing of theirs is
shown for the first time. Where a group e comes later, an entry whose signature meets it stays only if each set of its
values that all these groups show equally often has at least max(α, jℓ), times the values that its person had when e
came; its group then takes no newcomers and keeps its counts. Open values and permanent ones are not asked.
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
from shoal.core.audit.reading.view import Entry, Secrets
from shoal.core.policy.policy import Policy

NOT_A_BLOCK: Final = "a value is shown for the first time among values that another publication does not show alike"
TOO_SMALL: Final = "a value is shown for the first time beside another publication among fewer values than overlap asks"
CUT_TWICE: Final = "two people beside the same publications have blocks that are neither equal nor disjoint"
NO_BLOCK: Final = "a value is shown for the first time although some value has no block beside another publication"
STAYED: Final = "a value is still shown that another publication has left with too few like it"
NEWCOMER: Final = "a group that a later publication has split took newcomers or changed its counts"

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
        self._split: dict[str, set[Signature]] = defaultdict(set)  # by person: what stays and was told apart
        self._cut: dict[Neighbourhood, set[Signature]] = defaultdict(set)
        self._last: dict[str, tuple[int, frozenset[Entry]]] = {}  # of the last release: counts and rows of each group
        self._frozen: dict[str, tuple[int, frozenset[Entry]]] = {}  # groups that a later publication split
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
        now = {
            name: (max(group.shown.values()), frozenset(secrets.entries.get(name, ())))
            for name, group in release.groups.items()
        }
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
                elif one.signature in self._split[person] and one.group not in self._frozen:
                    before = self._last.get(one.group)
                    was_there = before is not None and Entry(person, one.leaf) in before[1]
                    self._frozen[one.group] = before if before and was_there else now[one.group]
                if sentence is not None:
                    findings.say(Promise.G5, sentence, release.number, one.group)
        for name, (count, entries) in self._frozen.items():
            is_wrong = name in now and (now[name][0] != count or not entries.issuperset(now[name][1]))
            findings.say(Promise.G5, NEWCOMER, release.number, name, int(is_wrong))
        self._last = now

    def _wrong_first(self, signature: Signature, place: Place) -> str | None:
        leaves = self._terms.leaves(signature)
        for near in place:
            alike = self.alike(near)
            if len({alike[leaf] for leaf in leaves}) > 1:
                return NOT_A_BLOCK
            if len(signature) < max(self._terms.m, self._alpha):
                return TOO_SMALL
            if self._smallest[near] < max(self._terms.m, self._alpha):
                return NO_BLOCK
            if any(leaves & self._terms.leaves(other) and signature != other for other in self._cut[near]):
                return CUT_TWICE
            self._cut[near].add(signature)
        return None

    def _judge(self, secrets: Secrets) -> None:
        """Decides for everyone who came to be beside others' groups which of their signatures may stay."""
        for person, known in self._history.people.items():
            place = self.near.of(person)
            fresh = place - self._place.get(person, frozenset())
            self._place[person] = place
            for signature, spells in known.spells.items() if fresh else ():
                j = min(len(spells), self._terms.most_values(signature))
                needed = max(Fraction(self._alpha), j * self._terms.l) * self._count_values(person, secrets)
                for near in fresh:
                    alike = self.alike(near)
                    sizes = Counter(alike[leaf] for leaf in self._terms.leaves(signature))
                    if sizes.keys() == {NEVER}:
                        continue
                    if min(sizes.values()) < needed:
                        self._barred.add((person, signature))
                    elif len(sizes) > 1:
                        self._split[person].add(signature)

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
