"""Possible worlds of a small lasting table, all of them, counted exactly (docs/design.md, "Values that last").

The adversary knows from which release to which everybody held each of their values (a spell), and which row of which
group is which spell's, though not which value it is. A world gives every spell one value. It fits if

- every group shows the value of each of its rows, and no value on more rows than it shows it: of a group that is
  complete, the counts come out exactly;
- a person's spells at one time have different values, and so do two of which one begins when the other ends;
- no spell has a value that came with a change of policy in its first release or later: no event could name it;
- with `is_settled`, the public rule S1: one value of one person is in one group for ever. So spells of one person in
  one group, which comes back, are one spell here; and any two spells of a person have different values.

All worlds that fit are equally likely. A "*" says nothing, so spells that were never shown otherwise are left out. A
plain group is a group like others: its rows have the values it shows. Guards are not known, so they change nothing.
Cliques are counted apart (`count_holders`).

Layout. Spells of one person that could have a value in common are told together: a *story* gives each of them a value,
and says how often it uses which value of which group. A world is a story of everyone for which groups have room. Spells
that share no groups and no values, directly or by way of others, are counted apart (`_Part`). In a part worlds are
counted teller by teller: `ahead` has how many ways lead to each state of the room that is left, `behind` how many lead
on from it. Room for more rows than are still to come is no different from room for all of them, so a group with nobody
to come drops out, and those who share groups come one after the other. Cost: states times stories, so it is for some 8
people and 5 releases; over `limit` of either it raises `TooManyWorlds`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from fractions import Fraction
from itertools import combinations, product
from typing import NamedTuple, TypeVar

from shoal.core.audit.attack.worlds import Token

LIMIT = 200_000

T = TypeVar("T")

Signature = frozenset[Token]
Room = tuple[int, ...]  # how many more rows each value of each group has room for


class TooManyWorlds(Exception):
    """The table is too large for its worlds to be counted."""


class Spell(NamedTuple):
    """One value that one person held from one release to another, both included.

    `number` tells spells of one person apart that are alike.
    """

    person: str
    first: int
    last: int
    number: int = 0


class EntryGroup(NamedTuple):
    """A group of a lasting table, its rows as spells: a signature, or a plain group. "*" and cliques have none."""

    rows: Sequence[Spell]
    shown: Mapping[Token, int]


class Story(NamedTuple):
    """What one person may have held: the value of each of their spells, and what that uses."""

    values: Mapping[Spell, Token]
    uses: Mapping[int, int]


class Counted(NamedTuple):
    """How many worlds there are, and in which share of them a spell has a value, or a person ever has it."""

    worlds: int
    spells: Mapping[Spell, Mapping[Token, Fraction]]
    people: Mapping[tuple[str, Token], Fraction]


class Uneven(NamedTuple):
    """What is not as promised: spells that are not each value of their signature with 1/m, and pairs over j/(m − c).

    `largest` is the largest probability of any person and value, those aside that were shown plainly.
    """

    spells: int
    pairs: int
    largest: Fraction


class Series:
    """A published series, without values."""

    def __init__(
        self,
        releases: Sequence[Sequence[EntryGroup]],
        is_settled: bool = True,
        limit: int = LIMIT,
        since: Mapping[int, int] | None = None,
    ) -> None:
        """Tells all stories. `since` has, by leaf, the change of policy with which it came. Raises `TooManyWorlds`."""
        self._is_settled, self._limit, self._since = is_settled, limit, since or {}
        self._shown: list[Mapping[Token, int]] = [group.shown for groups in releases for group in groups]
        self.groups: dict[Spell, list[int]] = defaultdict(list)  # the groups of each spell
        for number, group in enumerate(group for groups in releases for group in groups):
            for spell in group.rows:
                self.groups[spell].append(number)
        self._plain = {
            (spell.person, token)
            for spell in self.groups
            for signature in self.signatures(spell)
            for token in signature
            if len(signature) == 1
        }
        tellers = _join(self.groups, lambda spell: {(spell.person, token) for token in self._choices(spell)})
        parts = _join(map(tuple, tellers), lambda spells: {group for spell in spells for group in self.groups[spell]})
        self._parts = [self._part(part) for part in parts]

    def signatures(self, spell: Spell) -> set[Signature]:
        """What a spell was shown as; one signature, if the publisher keeps S1."""
        return {frozenset(self._shown[group]) for group in self.groups[spell]}

    def count(self, known: Mapping[Spell, Token] | None = None) -> Counted:
        """Counts the worlds, or those in which some spells have the values known of them. Raises `TooManyWorlds`."""
        worlds = 1
        spells: dict[Spell, Mapping[Token, Fraction]] = {}
        people: dict[tuple[str, Token], Fraction] = {}
        for part in self._parts:
            counted = part.count_worlds(known or {}, self._limit)
            worlds *= counted.worlds
            spells |= counted.spells
            people |= counted.people
        return Counted(worlds, spells, people)

    def check(self, counted: Counted, insiders: int = 0) -> Uneven:
        """Compares the worlds with the promise: every spell 1/m, every person and value at most j/(m − c)."""
        uneven = 0
        shown: Counter[tuple[str, Signature]] = Counter()
        for spell in self.groups:
            signatures, found = self.signatures(spell), counted.spells.get(spell)
            uneven += any(found != dict.fromkeys(s, Fraction(1, len(s))) for s in signatures)
            shown.update((spell.person, signature) for signature in signatures)
        over, largest = 0, Fraction(0)
        for (person, token), share in counted.people.items():
            if not self.is_plain(person, token):
                allowed = (
                    Fraction(spells, max(1, len(signature) - insiders))
                    for (one, signature), spells in shown.items()
                    if one == person and token in signature
                )
                over, largest = over + (share > max(allowed)), max(largest, share)
        return Uneven(uneven, over, largest)

    def is_plain(self, person: str, token: Token) -> bool:
        """Whether this value of somebody was shown as it is."""
        return (person, token) in self._plain

    def _choices(self, spell: Spell) -> list[Token]:
        shown = frozenset.intersection(*self.signatures(spell))
        return sorted(token for token in shown if any(self._since.get(leaf, 0) < spell.first for leaf in token))

    def _part(self, tellers: Sequence[Sequence[Spell]]) -> "_Part":
        groups = sorted({group for spells in tellers for spell in spells for group in self.groups[spell]})
        places = {(group, token): 0 for group in groups for token in self._shown[group]}
        places = {pair: place for place, pair in enumerate(places)}
        order = list(self._order(tellers))
        rows = Counter(group for spells in tellers for spell in spells for group in self.groups[spell])
        limits = [tuple(rows[group] for group, _ in places)]
        for spells in order:
            rows.subtract(group for spell in spells for group in self.groups[spell])
            limits.append(tuple(rows[group] for group, _ in places))
        start = tuple(min(self._shown[group][token], limits[0][place]) for (group, token), place in places.items())
        return _Part([list(self._tell(spells, places)) for spells in order], start, limits)

    def _order(self, tellers: Sequence[Sequence[Spell]]) -> Iterator[Sequence[Spell]]:
        """Those who share groups one after the other: next is always who is in the fewest groups not met before."""
        waiting = {at: {g for spell in spells for g in self.groups[spell]} for at, spells in enumerate(tellers)}
        met: set[int] = set()
        while waiting:
            following = min(waiting, key=lambda at: (len(waiting[at] - met), -len(waiting[at]), at))
            met |= waiting.pop(following)
            yield tellers[following]

    def _tell(self, spells: Sequence[Spell], places: Mapping[tuple[int, Token], int]) -> Iterator[Story]:
        """All stories of one teller."""
        for told, values in enumerate(product(*map(self._choices, spells))):
            if told > self._limit:
                raise TooManyWorlds
            story = dict(zip(spells, values, strict=True))
            if self._can_be(story):
                yield Story(
                    story, Counter(places[group, story[spell]] for spell in spells for group in self.groups[spell])
                )

    def _can_be(self, story: Mapping[Spell, Token]) -> bool:
        """No two spells have one value; but a plain one of somebody erased begins anew when they come back."""
        return not any(
            story[one] == story[other]
            and (
                (self._is_settled and not self.is_plain(one.person, story[one]))
                or (one.first <= other.last + 1 and other.first <= one.last + 1)
            )
            for one, other in combinations(story, 2)
        )


class _Part(NamedTuple):
    """Stories that have nothing to do with those of other parts; the room at first, and what can be used of it."""

    stories: Sequence[Sequence[Story]]
    start: Room
    limits: Sequence[Room]  # before the first teller, and after each

    def count_worlds(self, known: Mapping[Spell, Token], limit: int) -> Counted:
        stories = [
            [story for story in told if all(known.get(spell, token) == token for spell, token in story.values.items())]
            for told in self.stories
        ]
        ahead: list[Counter[Room]] = [Counter({self.start: 1})]
        for told, limits in zip(stories, self.limits[1:], strict=True):
            following: Counter[Room] = Counter()
            for room, ways in ahead[-1].items():
                for story in told:
                    after = _use(room, story, limits)
                    if after is not None:
                        following[after] += ways
            if len(following) > limit:
                raise TooManyWorlds
            ahead.append(following)
        behind: Counter[Room] = Counter(dict.fromkeys(ahead[-1], 1))
        spells: dict[Spell, Counter[Token]] = defaultdict(Counter)
        people: Counter[tuple[str, Token]] = Counter()
        for told, before, limits in zip(stories[::-1], ahead[-2::-1], self.limits[:0:-1], strict=True):
            earlier: Counter[Room] = Counter()
            for story in told:
                through = 0
                for room, ways in before.items():
                    after = _use(room, story, limits)
                    if after is not None and after in behind:
                        earlier[room] += behind[after]
                        through += ways * behind[after]
                if through:
                    for spell, token in story.values.items():
                        spells[spell][token] += through
                    for pair in {(spell.person, token) for spell, token in story.values.items()}:
                        people[pair] += through
            behind = earlier
        worlds = sum(ahead[-1].values())
        return Counted(
            worlds,
            {spell: {token: Fraction(n, worlds) for token, n in found.items()} for spell, found in spells.items()},
            {pair: Fraction(n, worlds) for pair, n in people.items()},
        )


def _join(things: Iterable[T], marks: Callable[[T], Set[object]]) -> list[list[T]]:
    """Things that have a mark in common, directly or by way of others, together."""
    parts: list[tuple[set[object], list[T]]] = []
    for thing in things:
        mine, joined, apart = set(marks(thing)), [thing], []
        for part in parts:
            if part[0] & mine:
                mine |= part[0]
                joined = part[1] + joined
            else:
                apart.append(part)
        parts = [*apart, (mine, joined)]
    return [joined for _, joined in parts]


def _use(room: Room, story: Story, limits: Room) -> Room | None:
    """The room that is left after a story; None if there is too little for it."""
    found = list(room)
    for place, count in story.uses.items():
        found[place] -= count
        if found[place] < 0:
            return None
    return tuple(map(min, found, limits))


def count_holders(groups: Sequence[Sequence[str]], limit: int = LIMIT) -> Mapping[str, Fraction]:
    """Of everyone in cliques of one permanent value: the share of holder sets with them in it.

    A clique shows the value once, so a holder set has exactly one person of each clique ever shown; who holds it does
    so for ever. Nobody knows how many values people have, so nothing else is known. Raises `TooManyWorlds`.
    """
    found: set[tuple[frozenset[str], frozenset[str]]] = {(frozenset(), frozenset())}  # holders, and everyone else
    for group in groups:
        people = frozenset(group)
        following = set()
        for holders, others in found:
            held = people & holders
            for holder in held or people - others:
                if len(held) <= 1:
                    following.add((holders | {holder}, others | (people - {holder})))
        found = following
        if len(found) > limit:
            raise TooManyWorlds
    everyone = sorted({person for group in groups for person in group})
    return {person: Fraction(sum(person in holders for holders, _ in found), max(1, len(found))) for person in everyone}
