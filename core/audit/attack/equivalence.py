"""The equivalence attack: a newcomer in a leaver's place has the leaver's value (He, Barman, Naughton 2011).

Two groups of consecutive releases that show the same values, and differ in one row, tell that the one who left and the
one who came have the same value. So do the two groups of somebody whose value is known to have stayed. Values are then
excluded for all of them together: what is left for any of them is what all of their groups show. One step more: the
others of a group cannot all have a value that is known of one and shown once.

This is what m-invariance gives away as soon as records are updated, or come back: a person who was published once, in a
group that is m-diverse, is found out by what is published of others later. In a series by rules S1 to S5 all entries
that are equated have one signature, and nothing is excluded (docs/design.md, "Values that last").

Input is that of `lasting_worlds`: rows are spells, so a spell that goes on has the same value in all of its groups.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from shoal.core.audit.attack.lasting_worlds import EntryGroup, Spell
from shoal.core.audit.attack.worlds import Token


def equate(releases: Sequence[Sequence[EntryGroup]]) -> dict[Spell, Spell]:
    """For every spell the first of those that are known to have the same value; itself if it is the first."""
    same: dict[Spell, Spell] = {}

    def first(spell: Spell) -> Spell:
        while same.setdefault(spell, spell) != spell:
            spell = same[spell]
        return spell

    before: Sequence[EntryGroup] = ()
    for groups in releases:
        for group in groups:
            for spell in group.rows:
                first(spell)
            for old in before:
                left, came = set(old.rows) - set(group.rows), set(group.rows) - set(old.rows)
                is_full = sum(group.shown.values()) == len(group.rows) and sum(old.shown.values()) == len(old.rows)
                if is_full and len(left) == len(came) == 1 and old.shown == group.shown:
                    one, other = sorted((first(left.pop()), first(came.pop())))
                    same[other] = one
        before = groups
    return {spell: first(spell) for spell in same}


def candidates(releases: Sequence[Sequence[EntryGroup]]) -> Mapping[Spell, frozenset[Token]]:
    """The values that are left for each spell when nothing more can be excluded."""
    same = equate(releases)
    groups = [group for release in releases for group in release]
    left: dict[Spell, frozenset[Token]] = {}
    for group in groups:
        for spell in group.rows:
            one = same[spell]
            left[one] = left.get(one, frozenset(group.shown)) & frozenset(group.shown)
    is_new = True
    while is_new:
        is_new = False
        for group in groups:
            known = Counter(token for spell in group.rows for token in left[same[spell]] if len(left[same[spell]]) == 1)
            spent = {token for token, count in known.items() if count >= group.shown.get(token, 0)}
            for one in {same[spell] for spell in group.rows}:
                rest = left[one] - spent
                if len(left[one]) > 1 and rest != left[one]:
                    left[one], is_new = rest, True
    return {spell: left[one] for spell, one in same.items()}
