"""Publishers of lasting tables that are wrong, each in one way: for the auditor to find out."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.support.engines.lasting import Publisher, Signature
from tests.support.engines.lasting_desk import OPEN, PERMANENT, TRANSIENT, Row, Shown


def shifted(m: int, value: str) -> Signature:
    """A block of another cut than the right one: by two values further on."""
    at = (TRANSIENT.index(value) - 2) % len(TRANSIENT) // m * m
    return frozenset(TRANSIENT[(at + place + 2) % len(TRANSIENT)] for place in range(m))


class Restless(Publisher):
    """S1: cuts values anew in every other release."""

    def signature(self, person: str, value: str) -> Signature:
        return super().signature(person, value) if self.desk.number % 2 else shifted(self.m, value)


class Overlapping(Publisher):
    """S2: cuts values in two ways, and takes either for a value of a person, always the same."""

    def signature(self, person: str, value: str) -> Signature:
        is_shifted = (int(person[1:]) + TRANSIENT.index(value) // 2) % 2
        return shifted(self.m, value) if is_shifted else super().signature(person, value)


class Crowding(Publisher):
    """S3: shows every value there is."""

    def can_be_new(self, person: str, fresh: int) -> int:
        return fresh


class HalfFull(Publisher):
    """S3, all or nothing: shows a new value as long as one block has room for it, and another "*"."""

    def place(self, person: str) -> dict[str, object]:
        found = super().place(person)
        for value, how in found.items():
            if how == "*" and value in TRANSIENT and not self.is_hidden(person):
                signature = self.signature(person, value)
                seen = {v for v, _ in self.shown[person].get(signature, ())}
                is_first = not any(one == signature for one in found.values())
                if value not in seen and len(seen) < self.most and is_first and not self.plain[person]:
                    found[value] = signature
        return found

    def may_show(self, person: str, value: str, spell: int) -> bool:
        return True


class Lopsided(Publisher):
    """S4: shows values as often as they are there."""

    def _show_signature(
        self, signature: Signature, rows: list[Row], groups: dict[object, Shown], stars: list[Row]
    ) -> None:
        if rows:
            groups[signature] = Shown(rows, dict(Counter(str(row.value) for row in rows)))


class Generous(Publisher):
    """Evens everything out with counterfeits."""

    def balance(self, counts: Mapping[str, int]) -> int:
        return max(counts.values())


class Secretive(Publisher):
    """S4: counts its counterfeits as rows."""

    def _show_signature(
        self, signature: Signature, rows: list[Row], groups: dict[object, Shown], stars: list[Row]
    ) -> None:
        super()._show_signature(signature, rows, groups, stars)
        if signature in groups:
            groups[signature].counterfeits = 0


class Small(Publisher):
    """Signatures of two values."""

    def signature(self, person: str, value: str) -> Signature:
        at = TRANSIENT.index(value) // 2 * 2
        return frozenset(TRANSIENT[at : at + 2])


class Blunt(Publisher):
    """Shows one protected value as it is."""

    def is_plain(self, person: str, value: str) -> bool:
        return value == "acne" or super().is_plain(person, value)


class Fickle(Publisher):
    """Shows values plainly just while somebody has the empty guard."""

    def is_plain(self, person: str, value: str) -> bool:
        return value in OPEN or self.table[person][2] == ""

    def can_be_new(self, person: str, fresh: int) -> int:
        taken = [len({value for value, _ in spells}) for spells in self.shown[person].values()]
        return min(fresh, *(self.most - one for one in taken), self.most)


class Open(Publisher):
    """Hides protected values among open ones."""

    def signature(self, person: str, value: str) -> Signature:
        return super().signature(person, value) | {"flu"}

    def is_plain(self, person: str, value: str) -> bool:
        return value == "cold" or (value != "flu" and super().is_plain(person, value))

    def place(self, person: str) -> dict[str, object]:
        rest = {value: spell for value, spell in self.spells[person].items() if value != "flu"}
        has_flu, self.spells[person] = len(rest) < len(self.spells[person]), rest
        found = super().place(person)
        return {**found, "flu": super().signature(person, "asthma") | {"flu"}} if has_flu else found

    def _follow_spells(self) -> None:
        super()._follow_spells()
        self._flu = {person: spells.get("flu", 0) for person, spells in self.spells.items()}

    def _remember(self, groups: Mapping[object, Shown]) -> None:
        for person, spell in self._flu.items():
            self.spells[person]["flu"] = spell
        super()._remember(groups)


class Mixed(Publisher):
    """Hides protected values among permanent ones."""

    def signature(self, person: str, value: str) -> Signature:
        return super().signature(person, value) | {"hiv"}


class Careless(Publisher):
    """Guards are no concern of it."""

    def may_show(self, person: str, value: str, spell: int) -> bool:
        return True

    def is_hidden(self, person: str) -> bool:
        return False


class Forgetful(Publisher):
    """Takes every guard for one that was always there."""

    def may_show(self, person: str, value: str, spell: int) -> bool:
        known = self.shown[person].get(self.signature(person, value), ())
        return (value, spell) in known or super().may_show(person, value, spell)


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

    def place(self, person: str) -> dict[str, object]:
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

    def place(self, person: str) -> dict[str, object]:
        found = super().place(person)
        kept = {value: how for value, how in found.items() if how != "*"}
        return kept or found


class Alone(Publisher):
    """Takes no notice of other publishers."""

    def has_block(self, person: str) -> bool:
        return True

    def may_stay(self, person: str, value: str) -> bool:
        return True
