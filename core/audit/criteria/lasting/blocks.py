"""G5 in a lasting table: what is shown of people inside other publishers' groups.

docs/external.md, "Beside a lasting table". Others' groups are *joined* if their regions meet, if somebody was ever in
both, or if one of our groups ever had people inside both. Whatever is shown of somebody inside must keep to one of two
rules: their e is *alone*, joined with no other, nothing else was ever shown of anybody inside, and it can bear all
rounds that ever had people inside (`budget.py`); or each set of values of the signature that all joined e show equally
often, and that lie in the same signatures of people inside, has at least max(α, jℓ + c). A signature of which these e
show nothing is not asked.

What is shown for the first time by the first rule is the only value that its person holds. By the second, every
transient value has max(m, α) like it. Of somebody with several values when an e came, e shows nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

from shoal.core.audit.criteria.lasting.budget import Bearing
from shoal.core.audit.criteria.lasting.history import History, Sighting
from shoal.core.audit.criteria.lasting.neighbourhoods import Neighbourhood, Neighbourhoods
from shoal.core.audit.criteria.lasting.terms import Kind, Signature
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.policy import Policy

TOO_MUCH: Final = "a value is shown for the first time beside another publication that cannot hide it"
STAYED: Final = "a value is still shown that another publication has left with too few like it"

Joined = frozenset[int]  # positions of others' groups


class Blocks:
    """Checks everything that is shown of people inside others' groups."""

    def __init__(self, policy: Policy, history: History) -> None:
        self._history, self._terms, self._alpha = history, history.terms, policy.overlap
        self.near = Neighbourhoods(policy)
        self._groups: dict[str, tuple[Signature, int, set[str]]] = {}  # its rounds, and who was ever in it
        self._shown: dict[str, dict[int, Signature | None]] = defaultdict(dict)  # by person all that was shown, ever
        self._place: dict[str, Joined] = {}  # inside what, when it was last looked at
        self._times: dict[tuple[str, Signature], int] = {}  # how many values somebody had when others came

    @property
    def is_asked(self) -> bool:
        """Whether others have published anything."""
        return bool(self.near.others)

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        self.near.look(secrets.others, secrets.table)
        before = {person: dict(shown) for person, shown in self._shown.items()} if self.is_asked else {}
        for seen in self._sightings():
            self._shown[seen.person].setdefault(seen.leaf, seen.signature)
            if seen.signature is not None:
                rounds = max(release.groups[seen.group].shown.values())
                self._groups.setdefault(seen.group, (seen.signature, rounds, set()))[2].add(seen.person)
        if not self.is_asked:
            return
        joined = self._join()
        self._note_late(joined, before, secrets)
        judges: dict[Joined, _Judge] = {}
        for seen in self._sightings():
            place = joined.get(seen.person)
            if place is None or seen.signature is None:
                continue
            if place not in judges:
                judges[place] = self._judge(place, joined)
            is_first = seen.leaf not in before.get(seen.person, ())
            if not self._may_be_shown(seen, judges[place], secrets, is_first=is_first):
                findings.say(Promise.G5, TOO_MUCH if is_first else STAYED, release.number, seen.group)

    def _may_be_shown(self, seen: Sighting, judge: "_Judge", secrets: Secrets, *, is_first: bool) -> bool:
        person, signature = seen.person, seen.signature
        assert signature is not None
        protected = secrets.table[person].values - self._terms.open
        if judge.is_borne and (not is_first or len(protected) == len(self._shown[person]) == 1):
            return True
        sizes = judge.alike(signature)
        if sizes is None and not is_first:
            return True
        values = sum(other == signature for other in self._shown[person].values())
        needed = max(Fraction(self._alpha), values * self._terms.l + self._terms.insiders)
        enough = min(sizes or [len(signature)])
        if is_first:
            return enough >= needed and judge.has_parts(self._terms.transient, max(self._terms.m, self._alpha))
        return enough >= needed and self._times.get((person, signature), 1) == 1

    def _sightings(self) -> Iterable[Sighting]:
        for seen in self._history.now.values():
            for one in seen:
                if one.signature is not None or (one.kind is Kind.PLAIN and one.leaf not in self._terms.open):
                    yield one

    def _note_late(self, joined: Mapping[str, Joined], before: Mapping[str, object], secrets: Secrets) -> None:
        """Notes how many values people have whose signatures others come to."""
        for person, place in joined.items():
            if self._place.get(person) != place and person in before:
                values = secrets.table[person].values - self._terms.open if person in secrets.table else ()
                for signature in {one for one in self._shown[person].values() if one is not None}:
                    self._times[person, signature] = max(1, len(values), self._times.get((person, signature), 1))
        self._place.update(joined)

    def _join(self) -> dict[str, Joined]:
        """By person inside, all of others' groups that are joined with theirs."""
        places = {person: self.near.of(person) for person in self.near.people}
        found: dict[Neighbourhood, set[Neighbourhood]] = {}
        together = [place for place in places.values() if place]
        together += [frozenset().union(*(places[one] for one in people)) for _, _, people in self._groups.values()]
        for place in together:
            whole = set[Neighbourhood]().union(*(found.get(near, {near}) for near in place))
            found.update(dict.fromkeys(whole, whole))
        return {person: frozenset().union(*found[next(iter(place))]) for person, place in places.items() if place}

    def _judge(self, place: Joined, joined: Mapping[str, Joined]) -> "_Judge":
        inside = {person for person, other in joined.items() if other == place}
        rounds = Counter[Signature]()
        for signature, times, people in self._groups.values():
            if not people.isdisjoint(inside):
                rounds[signature] += times
        alike = {
            leaf: (
                *(self.near.others[at].weights.get(leaf, 0) for at in sorted(place)),
                *(leaf in signature for signature in rounds),
            )
            for leaf in range(len(self._terms.labels))
        }
        shows = {leaf for at in place for leaf in self.near.others[at].weights}
        is_single = len(place) == 1 and all(len(self._shown[person]) <= 1 for person in inside & self._shown.keys())
        is_borne = False
        if is_single:
            weights = self.near.others[min(place)].weights
            whole = {leaf: int(weight) for leaf, weight in weights.items()}
            bearing = Bearing(whole, self._terms.l, self._alpha, self._terms.insiders)
            is_borne = whole == weights and bearing.bears(rounds)
        return _Judge(is_borne, alike, shows)


class _Judge:
    """What joined groups of others let be shown of the people inside."""

    def __init__(self, is_borne: bool, alike: Mapping[int, object], shows: set[int]) -> None:
        self.is_borne, self._alike, self._shows = is_borne, alike, shows

    def alike(self, signature: Signature) -> list[int] | None:
        """How many values of a signature are alike; None if nothing of it is shown."""
        if not signature & self._shows:
            return None
        return list(Counter(self._alike[leaf] for leaf in signature).values())

    def has_parts(self, values: Iterable[int], least: int) -> bool:
        """Whether each of these values has enough like it."""
        return min(Counter(self._alike[leaf] for leaf in values).values(), default=least) >= least
