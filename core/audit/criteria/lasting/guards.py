"""G4 in a lasting table: for a person who guards the set A, the sum over their signatures of j·|S ∩ A|/(m − c).

It stays within their bound. j counts the different values that were shown; one shown plainly is a signature of one.
While one more value, wherever it lay, could pass the bound, nothing is shown for the first time. A guard named later
counts what was shown before; if that is too much already, entries whose signature meets A are "*" from then on. A guard
over an open value, like a bound below 1/(m − c), makes all of that person's entries "*" (docs/design.md, "Values that
last"). If a policy gains an open value that somebody guards already, what is shown of them goes on: a spell that began
earlier cannot be it.
"""

from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from shoal.core.audit.criteria.lasting.history import History, Known, Sighting
from shoal.core.audit.criteria.lasting.terms import Kind, Signature
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.epochs import Gained
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.truth import Guard
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.policy import Policy

OVER: Final = "what is shown of what a person guards is over their bound"
SHOWN_AFTER: Final = "something that meets what a person guards is shown although its bound was used up before"
UNSAFE: Final = "a value is shown for the first time for somebody whose bound one more value could pass"
NOT_STARRED: Final = 'somebody whose guard is over an open value, or below 1/(m - insiders), has a row that is not "*"'


class Nearest(NamedTuple):
    """The most that was shown of what somebody guards, and their bound."""

    sum: Fraction
    bound: Fraction


class LastingGuards:
    """Adds up what is shown of what people guard."""

    def __init__(self, policy: Policy, history: History) -> None:
        self._history, self._terms = history, history.terms
        self._hierarchy, self._gained = policy.sensitive.hierarchy, Gained(policy)
        self._spent: dict[str, tuple[Guard, bool]] = {}  # by person: their guard, and whether it came too late
        self.people: set[str] = set()  # ever published with a guard that asks for something
        self.unguarding: set[str] = set()  # ever published with the empty guard
        self.nearest: dict[str, Nearest] = {}

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        there = self._gained.see(release.epoch, release.number)
        for person in secrets.homes:
            guard = secrets.table[person].guard
            if guard is None or guard.node is None:
                self._spent.pop(person, None)
                if guard is not None:
                    self.unguarding.add(person)
                continue
            self.people.add(person)
            since = secrets.guarded_since.get(person, 0)
            place, sentence = self._judge(person, guard, since, self._guarded(guard) & there)
            if sentence is not None:
                findings.say(Promise.G4, sentence, release.number, place)

    def _judge(self, person: str, guard: Guard, since: int, leaves: frozenset[int]) -> tuple[str | None, str | None]:
        """`since` is when they named the guard, `leaves` what it covers of those that the release was made with."""
        rows = [one for one in self._history.now.get(person, ()) if one.kind is not Kind.STARRED]
        opened = [self._came(leaf) for leaf in leaves & self._terms.open]
        if leaves and guard.bound < Fraction(1, self._terms.m - self._terms.insiders):
            opened.append(0)
        if opened:
            begun = [one for one in rows if max(one.spell, since) > min(opened)]
            if begun or not rows:
                return (begun[0].group, NOT_STARRED) if begun else (None, None)
        known_before = self._history.of(person)
        spent = self._shown_of(known_before.values, known_before.plain & leaves, leaves)
        known, is_late = self._spent.get(person, (None, False))
        if known != guard:
            is_late = spent > guard.bound
            self._spent[person] = guard, is_late
        if is_late:
            meeting = next((one for one in rows if self._leaves(one) & leaves), None)
            return (meeting.group, SHOWN_AFTER) if meeting is not None else (None, None)
        plain = known_before.plain | {one.leaf for one in rows if one.kind is Kind.PLAIN}
        total = self._shown_of(self._history.after(person), plain & leaves, leaves)
        if person not in self.nearest or total / guard.bound > self.nearest[person].sum / self.nearest[person].bound:
            self.nearest[person] = Nearest(total, guard.bound)
        if total > max(guard.bound, spent):  # what was over before this release was said then
            return rows[0].group, OVER
        fresh = self._history.fresh(person)
        is_unsafe = bool(fresh) and spent + self._least_worst(known_before, leaves) > guard.bound
        return (fresh[0].group, UNSAFE) if is_unsafe else (None, None)

    def _came(self, leaf: int) -> int:
        """The change of policy with which a value came; 0 if it was always there."""
        return self._gained.since.get(leaf, 0)

    def _leaves(self, one: Sighting) -> frozenset[int]:
        return frozenset({one.leaf}) if one.signature is None else one.signature

    def _shown_of(
        self, shown: Mapping[Signature, Collection[int]], plain: Collection[int], leaves: frozenset[int]
    ) -> Fraction:
        """The sum over signatures of j·|S ∩ A|/(m − c), and 1 for each value of A that was shown plainly."""
        shares = (self._share(signature, leaves) * len(mine) for signature, mine in shown.items())
        return sum(shares, Fraction(len(plain)))

    def _share(self, signature: Signature, leaves: frozenset[int]) -> Fraction:
        return Fraction(len(signature & leaves), max(1, len(signature) - self._terms.insiders))

    def _least_worst(self, known: Known, leaves: frozenset[int]) -> Fraction:
        """What one more value adds where it adds most, at least: a new signature may be as large as there are any."""
        shares = [self._share(signature, leaves) for signature in known.values]
        if leaves.difference(*known.values):
            shares.append(Fraction(1, 2 * self._terms.m - 1 - self._terms.insiders))
        return max(shares, default=Fraction(0))

    def _guarded(self, guard: Guard) -> frozenset[int]:
        """The set A: the leaves under the guarding node but permanent ones, which are G3's."""
        assert guard.node is not None
        run = range(self._hierarchy.first[guard.node], self._hierarchy.last[guard.node])
        return frozenset(run) - self._terms.permanent
