"""The linkage-exclusion attack on small series made by hand: who can be excluded, with how much knowledge."""

from collections.abc import Sequence
from fractions import Fraction

import pytest

from shoal.core.audit.permanent.holders import Component, Drawn, HolderSets
from tests.support.engines.audited import ByHand
from tests.support.engines.scarcity import HIV, OTHERS, scarce_policy

EXCLUDED = "G3: somebody who knows the participation of K people can exclude all but fewer than l as a holder"
YOUNG, OLD = ("c1", {"age": {"min": 0, "max": 49}}), ("c2", {"age": {"min": 50, "max": 99}})


def count(*releases: Sequence[tuple[str, int]]) -> Component:
    """The holder sets of people in releases of (people, times shown), all of whom hang together."""
    sets = HolderSets()
    for release in releases:
        sets.see(Drawn(people.split(), shown, 0) for people, shown in release)
    (component,) = sets.components
    return component


def test_a_spare_who_left_is_in_most_sets_and_in_none_of_the_smallest() -> None:
    """They may have taken the value with them, if somebody else fell ill just then: nobody has to believe that."""
    component = count([("h a spare", 1), ("x", 0)], [("h a x", 1)])
    assert component.risks(is_fewest=False)["spare"] == Fraction(3, 5)
    assert component.risks() == {"h": Fraction(1, 2), "a": Fraction(1, 2), "spare": 0, "x": 0}


def test_a_new_clique_with_an_earlier_candidate_can_point_at_them() -> None:
    """A person who was in the first group and is in the second explains both: the three rules of `all` allow it."""
    component = count([("h a c x", 1)], [("c d", 1)])
    assert component.risks()["c"] == 1
    assert component.risks(is_fewest=False)["c"] == Fraction(4, 7)
    assert count([("h a c x", 1), ("d", 0)], [("h a x", 1), ("c d", 1)]).risks()["c"] == Fraction(3, 6)
    assert count([("h a c", 1), ("d", 0)], [("h a x", 1), ("c d", 1)]).risks()["c"] == Fraction(3, 5)


class Town(ByHand):
    """Young people in one cell, old ones in another; h holds HIV, and everyone is registered from the start."""

    young, old = ("h", "d", "e", "f"), ("b", "g", "i", "j")

    def settle(self) -> "Town":
        for at, person in enumerate(self.young):
            self.tell({"op": "register", "id": person, "qid": {"age": 20 + at}})
        for at, person in enumerate(self.old):
            self.tell({"op": "register", "id": person, "qid": {"age": 70 + at}})
        return self

    def come(self, *people: str) -> None:
        for person in people:
            age = 20 + self.young.index(person) if person in self.young else 70 + self.old.index(person)
            values = [HIV] if person == "h" else [OTHERS[0]]
            self.tell({"op": "insert", "id": person, "qid": {"age": age}, "sensitive": values})

    def go(self, *people: str) -> None:
        for person in people:
            self.tell({"op": "delete", "id": person})

    def show(self, number: int, *groups: str, decoy: str | None, hidden: str = "") -> None:
        """One release; the value of the person `hidden`, not of h, is "*"."""
        shown = {}
        for at, people in enumerate(map(str.split, groups)):
            stars = people.count(hidden)
            values = {HIV: people.count("h"), OTHERS[0]: len(people) - people.count("h") - stars, "*": stars}
            shown[f"g{number}.{at}"] = (number, people, {label: n for label, n in values.items() if n})
        regions = {**dict.fromkeys(self.young, YOUNG), **dict.fromkeys(self.old, OLD)}
        self.publish(shown, regions, cohorts={HIV: [["h"], [decoy]] if decoy else [[], []]})

    def excluded(self) -> bool:
        return EXCLUDED in self.sentences()


def town(known: int = 0) -> Town:
    return Town(scarce_policy(2, known)).settle()


@pytest.mark.parametrize(("buddy", "is_found_out"), [("e", False), ("b", True)])
def test_a_decoy_may_be_replaced_only_by_somebody_who_lives_where_the_group_was(buddy: str, is_found_out: bool) -> None:
    """A container that is larger than the cells of the group that showed the value hides nobody (Bu, Principle 2)."""
    desk = town()
    desk.come("h", "d", "b", "g")
    desk.show(1, "h d", "b g", decoy="d")
    desk.go("d")
    if buddy == "e":
        desk.come("e")
        desk.show(2, "h e", "b g", decoy="e")
    else:
        desk.tell({"op": "deregister", "id": "d"}, *({"op": "deregister", "id": person} for person in ("e", "f")))
        desk.show(2, "h b", "g", decoy="b")
    assert desk.excluded() == is_found_out


@pytest.mark.parametrize(("known", "is_found_out"), [(0, False), (1, False), (2, True)])
def test_an_absent_holder_hides_among_more_absent_people_than_may_be_known(known: int, is_found_out: bool) -> None:
    desk = town(known)
    desk.come("h", "d", "e", "b", "g")
    desk.show(1, "h d e", "b g", decoy="d")
    desk.go("h")
    desk.show(2, "d e", "b g", decoy=None)  # absent in the cell: h and f
    assert desk.excluded() == is_found_out


def test_an_absent_holder_whom_everyone_else_in_the_cell_survives_in_plain_sight_is_exposed_to_anybody() -> None:
    desk = town()
    desk.come("h", "d", "e", "f", "b", "g")
    desk.show(1, "h d e f", "b g", decoy="d")
    desk.go("h")
    desk.tell({"op": "deregister", "id": "h"})
    desk.show(2, "d e f", "b g", decoy=None)
    assert desk.excluded()
    report = desk.auditor.report(b"key")
    assert report.private is not None
    assert report.private.permanent is not None
    assert [(attack.under, attack.fewest) for attack in report.private.permanent.attacks] == [(1, 1), (1, 1)]


@pytest.mark.parametrize(("groups", "is_found_out"), [(["e", "f"], True), (["e f"], False), (["e"], False)])
def test_once_a_buddy_took_over_the_other_buddies_must_stay_possible_while_the_value_is_hidden(
    groups: list[str], is_found_out: bool
) -> None:
    """A publisher can: it shows them under the same "*", or withholds them."""
    desk = town(known=1)
    desk.come("h", "d", "e", "f")
    desk.show(1, "h d", "e f", decoy="d")
    desk.go("d")
    desk.tell({"op": "deregister", "id": "d"})
    desk.show(2, "h e", "f", decoy="e")
    desk.go("h")
    desk.show(3, *groups, decoy=None, hidden="e")
    assert desk.excluded() == is_found_out
