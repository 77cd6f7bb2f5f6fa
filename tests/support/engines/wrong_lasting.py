"""Publishers of lasting tables that are wrong, each in one way: for the auditor to find out."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tests.support.engines.lasting import Entry, Formed, Publisher, Signature
from tests.support.engines.lasting_desk import OPEN, PERMANENT, TRANSIENT, Row, Shown


def shifted(m: int, value: str) -> Signature:
    """A block of another cut than the right one: by two values further on."""
    at = (TRANSIENT.index(value) - 2) % len(TRANSIENT) // m * m
    return frozenset(TRANSIENT[(at + place + 2) % len(TRANSIENT)] for place in range(m))


class Restless(Publisher):
    """S1: forgets a group when its entry is not there, and deals it anew when it is."""

    def _follow_spells(self) -> None:
        super()._follow_spells()
        for person, value in [*self.home]:
            if value not in self.spells.get(person, ()):
                del self.home[person, value]

    def shown(self, person: str) -> dict[Signature, set[str]]:
        return defaultdict(set)


class Hiding(Publisher):
    """S1: shows a value again only if it did not change for long."""

    def place(self, person: str) -> dict[str, str]:
        found = super().place(person)
        is_odd = self.desk.number % 3 == 0
        return {value: "*" if is_odd and how in self.groups else how for value, how in found.items()}


class Overlapping(Publisher):
    """S2: cuts values in two ways, and takes either for a value of a person, always the same."""

    def signature(self, person: str, value: str) -> Signature:
        is_shifted = (int(person[1:]) + TRANSIENT.index(value) // 2) % 2
        return shifted(self.m, value) if is_shifted else super().signature(person, value)


class Crowding(Publisher):
    """S3: shows every value there is."""

    def can_be_new(self, person: str) -> bool:
        return True


class HalfFull(Publisher):
    """S3, all or nothing: shows a new value as long as its own block has room for it."""

    def place(self, person: str) -> dict[str, str]:
        found = super().place(person)
        for value, how in found.items():
            if how == "*" and value in TRANSIENT and not self.is_hidden(person) and not self.plain[person]:
                signature, mine = self.signature(person, value), self.shown(person)
                if (person, value) not in self.home and len(mine.get(signature, ())) < self.most(signature):
                    found[value] = ""
        return found


class Lopsided(Publisher):
    """S4: deals newcomers as they come, and shows values as often as they are there."""

    def deal(self, newcomers: Sequence[Entry]) -> list[Formed]:
        blocks: dict[Signature, set[Entry]] = defaultdict(set)
        for person, value in newcomers:
            blocks[self.signature(person, value)].add((person, value))
        return [Formed(block, 1, entries) for block, entries in blocks.items()]

    def show_group(self, formed: Formed, rows: list[Row]) -> Shown:
        return Shown(rows, dict(Counter(str(row.value) for row in rows)))


class Incomplete(Publisher):
    """S4: forms rounds of whatever there is, and calls the rest vacant."""

    def deal(self, newcomers: Sequence[Entry]) -> list[Formed]:
        blocks: dict[Signature, dict[str, Entry]] = defaultdict(dict)
        for person, value in newcomers:
            blocks[self.signature(person, value)][value] = person, value
        return [Formed(block, 1, set(entries.values())) for block, entries in blocks.items()]


class Refilling(Publisher):
    """S4: gives newcomers the places of those who left."""

    def _newcomers(self, places: dict[Entry, str]) -> None:
        taken = {(how, value) for (_, value), how in places.items()}
        for (person, value), how in places.items():
            for name, group in self.groups.items() if how == "" else ():
                if value in group.signature and (name, value) not in taken and (person, value) not in self.home:
                    taken.add((name, value))
                    self.home[person, value] = places[person, value] = name
                    self.first[person, value] = len(self.others) if self.beside[person] else 0
        super()._newcomers(places)


class Shrinking(Publisher):
    """S4: shows of a group only what still has a row."""

    def show_group(self, formed: Formed, rows: list[Row]) -> Shown:
        return Shown(rows, dict(Counter(str(row.value) for row in rows)))


class Secretive(Publisher):
    """S4: counts nobody as vacant."""

    def show_group(self, formed: Formed, rows: list[Row]) -> Shown:
        return Shown(rows, super().show_group(formed, rows).values)


class Twice(Publisher):
    """S2: deals two values of a person into one group."""

    def deal(self, newcomers: Sequence[Entry]) -> list[Formed]:
        formed = super().deal(newcomers)
        for group in formed:
            for person, _ in sorted(group.entries):
                for other in (set(self.spells[person]) & group.signature) - {
                    v for p, v in group.entries if p == person
                }:
                    (mate,) = (entry for entry in group.entries if entry[1] == other)
                    if (person, other) not in self.home:
                        group.entries.remove(mate)
                        group.entries.add((person, other))
                        return formed
        return formed


class Bare(Publisher):
    """Shows as many rounds as there are, and hides what is left whatever it is."""

    def is_covered(self, rest: Sequence[int]) -> bool:
        return True


class Patient(Publisher):
    """Shows some of a batch, and lets as many wait as there were."""

    def is_covered(self, rest: Sequence[int]) -> bool:
        return True

    def star(self, left: Sequence[Entry]) -> None:
        pass


class Small(Publisher):
    """Signatures of two values."""

    def signature(self, person: str, value: str) -> Signature:
        at = TRANSIENT.index(value) // 2 * 2
        return frozenset(TRANSIENT[at : at + 2])

    def most(self, signature: Signature) -> int:
        return 1


class Blunt(Publisher):
    """Shows one protected value as it is."""

    def is_plain(self, person: str, value: str) -> bool:
        return value == "acne" or super().is_plain(person, value)


class Fickle(Publisher):
    """Shows values plainly just while somebody has the empty guard."""

    def is_plain(self, person: str, value: str) -> bool:
        return value in OPEN or self.table[person][2] == ""

    def can_be_new(self, person: str) -> bool:
        return all(len(groups) < self.most(signature) for signature, groups in self.shown(person).items())


class Open(Publisher):
    """Hides protected values among open ones."""

    def signature(self, person: str, value: str) -> Signature:
        if value == "flu":
            return super().signature(person, "asthma") | {"flu"}
        found = super().signature(person, value)
        return found | {"flu"} if "asthma" in found else found

    def is_plain(self, person: str, value: str) -> bool:
        return value != "flu" and super().is_plain(person, value)


class Mixed(Publisher):
    """Hides protected values among permanent ones."""

    def deal(self, newcomers: Sequence[Entry]) -> list[Formed]:
        return [Formed(one.signature | {"hiv"}, 1, one.entries) for one in super().deal(newcomers)]


class Careless(Publisher):
    """Guards are no concern of it."""

    def may_show(self, person: str, value: str) -> bool:
        return True

    def is_hidden(self, person: str) -> bool:
        return False


class Forgetful(Publisher):
    """Takes every guard for one that was always there."""

    def may_show(self, person: str, value: str) -> bool:
        return (person, value) in self.home or super().may_show(person, value)


class Sharing(Publisher):
    """Takes anybody for a decoy."""

    def recruit(self, value: str, holder: str, people: list[str]) -> list[str]:
        others = [person for person in people if person != holder]
        return [holder, *others[: int(self.policy.l) - 1]]


class Renewing(Publisher):
    """Takes other decoys in every release."""

    def _show_cliques(self, *args: Any) -> dict[str, list[list[str]]]:
        self.cliques = {}
        return super()._show_cliques(*args)


class Lonely(Publisher):
    """Shows cliques whether or not their people have another row."""

    def _hide_holders(self, *args: Any) -> None:
        pass

    def can_show_clique(self, clique: list[str], people: set[str], others: Mapping[str, int]) -> bool:
        return people.issuperset(clique)


class Telltale(Publisher):
    """Gives a holder's value a row of its own, "*"."""

    def place(self, person: str) -> dict[str, str]:
        held = self.table[person][1] & set(PERMANENT)
        return {**super().place(person), **dict.fromkeys(sorted(held), "*")}


class Bold(Publisher):
    """Shows a clique's value for all of its people."""

    def _show_cliques(self, *args: Any) -> dict[str, list[list[str]]]:
        found = super()._show_cliques(*args)
        for how, group in args[-1].items():
            if isinstance(how, tuple):
                group.values = {how[0]: len(group.rows)}
        return found


class Fine(Publisher):
    """Shows regions of fewer than k people."""

    def is_big_enough(self, people: int) -> bool:
        return True


class Silent(Publisher):
    """Has no row for values that could only be "*"."""

    def place(self, person: str) -> dict[str, str]:
        found = super().place(person)
        kept = {value: how for value, how in found.items() if how != "*"}
        return kept or found


class Alone(Publisher):
    """Takes no notice of other publishers."""

    def has_block(self, person: str) -> bool:
        return True

    def may_stay(self, person: str, value: str) -> bool:
        return True


class Trusting(Publisher):
    """Reckons without insiders."""

    def most(self, signature: Signature) -> int:
        return int(len(signature) // self.policy.l)

    def recruit(self, value: str, holder: str, people: list[str]) -> list[str]:
        return super().recruit(value, holder, people)[: int(self.policy.l)]


class Impatient(Publisher):
    """Deals newcomers as soon as their values go together, however few they are, and the others later."""

    def is_batch(self, newcomers: Collection[Entry]) -> bool:
        return True

    def star(self, left: Sequence[Entry]) -> None:
        pass

    def _newcomers(self, places: dict[Entry, str]) -> None:
        super()._newcomers(places)
        self.waiting = 0
