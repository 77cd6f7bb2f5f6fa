"""m-invariance (Xiao, Tao 2007), and the equivalence attack on it under updates (He, Barman, Naughton 2011).

m-invariance: every group shows at least m values, each once, and a record is shown with the same set of values, its
signature, in all releases in which it is there without a break. Counterfeits stand in where a value has no
record. With inserts and deletes alone that bounds every risk by 1/m. An update makes another record of a person, free
to take another signature, though the person may have kept the value; so does a return. The example here is of the same
kind as the papers': a small hospital, 2-invariant, and one patient who was published just once.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from shoal.core.audit.attack.equivalence import candidates, equate
from shoal.core.audit.attack.lasting_worlds import EntryGroup, Series, Spell, Uneven
from shoal.core.audit.attack.neighbours import best_insiders
from shoal.core.audit.attack.persistence import PersistenceAttack
from shoal.core.audit.attack.shown import ShownGroup
from shoal.core.audit.attack.worlds import Token

FLU, HIV, GOUT, ULCER = range(4)
L = 2

ANN, BOB = Spell("ann", 1, 1), Spell("bob", 1, 3)
CAT, DAN = Spell("cat", 1, 3), Spell("dan", 1, 3)
EVE, FAY = Spell("eve", 2, 3), Spell("fay", 3, 3)
TRUTH = {ANN: FLU, BOB: HIV, CAT: GOUT, DAN: ULCER, EVE: FLU, FAY: FLU}

Release = Sequence[EntryGroup]


def group(*rows: Spell, shown: Sequence[int], each: int = 1) -> EntryGroup:
    return EntryGroup(rows, {(value,): each for value in shown})


# Ann leaves and Eve takes her place. Then Eve moves, which is an update: her record goes, and a record with the same
# value comes, in a group with another signature. Fay takes the place that she left.
SERIES: Sequence[Release] = [
    [group(ANN, BOB, shown=(FLU, HIV)), group(CAT, DAN, shown=(GOUT, ULCER))],
    [group(EVE, BOB, shown=(FLU, HIV)), group(CAT, DAN, shown=(GOUT, ULCER))],
    [group(FAY, BOB, shown=(FLU, HIV)), group(CAT, DAN, shown=(GOUT, ULCER)), group(EVE, shown=(FLU, GOUT))],
]

# The same people with the same values in settled groups, m = 4: nobody takes Ann's place. Eve waits for a round of her
# own, with three who come later, and stays in it when she moves.
GIL, HAL, IDA = (Spell(name, 3, 3) for name in ("gil", "hal", "ida"))
BY_RULES: Sequence[Release] = [
    [group(ANN, BOB, CAT, DAN, shown=(FLU, HIV, GOUT, ULCER))],
    [group(BOB, CAT, DAN, shown=(FLU, HIV, GOUT, ULCER))],
    [group(BOB, CAT, DAN, shown=(FLU, HIV, GOUT, ULCER)), group(EVE, GIL, HAL, IDA, shown=(FLU, HIV, GOUT, ULCER))],
]
TRUTH |= {GIL: HIV, HAL: GOUT, IDA: ULCER}


def records_of(series: Sequence[Release]) -> Mapping[tuple[str, int], list[frozenset[Token]]]:
    """By record, a person until the next update: the signatures it was shown with. Eve's update is in release 3."""
    found: dict[tuple[str, int], list[frozenset[Token]]] = {}
    for number, groups in enumerate(series, start=1):
        for one in groups:
            for spell in one.rows:
                updated = 3 if spell == EVE and number >= 3 else 1
                found.setdefault((spell.person, updated), []).append(frozenset(one.shown))
    return found


def test_the_series_is_two_invariant_by_the_papers_definition() -> None:
    for groups in SERIES:
        for one in groups:
            assert len(one.shown) >= 2, "at least m different values"
            assert set(one.shown.values()) == {1}, "each once"
    for signatures in records_of(SERIES).values():
        assert len(set(signatures)) == 1, "a record has the same signature in all releases"


def test_every_release_shows_what_is_true() -> None:
    for series in (SERIES, BY_RULES):
        for groups in series:
            for one in groups:
                for value in range(4):
                    assert sum(TRUTH[spell] == value for spell in one.rows) <= one.shown.get((value,), 0)


def test_with_inserts_and_deletes_alone_nobody_is_over_one_in_m() -> None:
    counted = Series(SERIES[:2], is_settled=False).count()
    assert set(counted.people.values()) == {Fraction(1, 2)}
    assert set(map(len, candidates(SERIES[:2]).values())) == {2}


def test_who_takes_a_leavers_place_is_equated_with_the_leaver() -> None:
    same = equate(SERIES)
    assert same[EVE] == same[FAY] == ANN, "Eve took Ann's place, and Fay took Eve's"
    assert same[CAT] == CAT


def test_one_update_of_eve_gives_ann_away_who_was_published_once() -> None:
    found = candidates(SERIES)
    assert found[EVE] == found[ANN] == found[FAY] == {(FLU,)}
    assert found[BOB] == {(HIV,)}, "what is left for him"


def test_enumeration_agrees_with_the_attack() -> None:
    counted = Series(SERIES, is_settled=False).count()
    for spell, left in candidates(SERIES).items():
        assert counted.spells[spell].keys() <= left, "the attack excludes only what is impossible"
    assert counted.people["ann", (FLU,)] == 1


def test_the_same_history_in_settled_groups_gives_nobody_away() -> None:
    assert equate(BY_RULES)[EVE] == EVE, "nobody took a leaver's place"
    assert set(map(len, candidates(BY_RULES).values())) == {4}
    series = Series(BY_RULES)
    assert series.check(series.count()) == Uneven(0, 0, Fraction(1, 4))
    insider = best_insiders(series, {spell: (TRUTH[spell],) for spell in series.groups}, L)
    assert insider.largest == Fraction(1, 3), "nor to any of the patients, who know their own value"


def attack(series: Sequence[Release]) -> dict[str, float]:
    """The persistence attack, for values that always stay."""
    found = PersistenceAttack(4, is_by_person=False)
    for groups in series:
        held = {spell.person: frozenset((TRUTH[spell],)) for one in groups for spell in one.rows}
        found.see([ShownGroup(at, [s.person for s in one.rows], one.shown) for at, one in enumerate(groups)], held)
    return {belief.person: belief.belief for _, belief in found.beliefs((), (1.0,))}


def test_the_persistence_attack_finds_eve_and_not_ann_whom_it_looks_at_alone() -> None:
    found = attack(SERIES)
    assert found["eve"] == 1
    assert found["ann"] == 0.5
    assert max(attack(BY_RULES).values()) < 0.5


def test_somebody_who_comes_back_is_given_another_signature_and_away() -> None:
    """A return is an insert: m-invariance knows nothing of the record before. Here only the value is the same."""
    first, back = Spell("gil", 1, 1), Spell("gil", 3, 3)
    hal, ida = Spell("hal", 1, 3), Spell("ida", 3, 3)
    invariant = [
        [group(first, hal, shown=(FLU, HIV))],
        [group(hal, shown=(FLU, HIV))],
        [group(hal, shown=(FLU, HIV)), group(back, ida, shown=(FLU, GOUT))],
    ]
    counted = PersistenceAttack(4, is_by_person=False)
    for groups in invariant:
        held = {spell.person: frozenset((FLU if spell.person == "gil" else GOUT,)) for g in groups for spell in g.rows}
        counted.see([ShownGroup(at, [s.person for s in one.rows], one.shown) for at, one in enumerate(groups)], held)
    surest = {belief.person: belief for _, belief in counted.beliefs((), (1.0,))}
    assert surest["gil"].belief == 1
    assert surest["gil"].is_right
