"""Known-bad publishers of permanent values: the auditor must say what is wrong with each, and nothing of good ones."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pytest

from shoal.core.audit import write_report
from tests.support.engines.audited import ByHand, redrawn
from tests.support.engines.scarcity import HIV, OTHERS, scarce_policy

TOO_FEW = "G3: fewer than l people could hold a value in a holder's place"
UNBALANCED = "G3: a group's owners of each cohort are not as many as the times it shows the value"
TORN = "G3: a clique that is not whole is not in one group"
UNCOVERED = 'G3: a decoy is left in a group that shows neither the value nor a "*" for it'
SHARED = 'G3: one "*" stands for the cliques of two holders'
TWICE = "G3: a group shows a permanent value more than once, although everyone's participation may be known"

Groups = dict[str, tuple[Sequence[str], dict[str, int]]]


class Ward(ByHand):
    """Ten people, of whom h1 and h2 hold HIV; a1, b1 and c1 are h1's decoys, a2, b2 and c2 those of h2."""

    everyone: Sequence[str] = ("h1", "a1", "b1", "c1", "h2", "a2", "b2", "c2", "x", "y")

    def open(self, absent: Sequence[str] = ()) -> "Ward":
        for at, person in enumerate(self.everyone):
            self.tell({"op": "register", "id": person, "qid": {"age": at}})
            if person not in absent:
                self.arrive(person)
        return self

    def arrive(self, person: str) -> None:
        values = [HIV] if person.startswith("h") else [OTHERS[0]]
        at = self.everyone.index(person)
        self.tell({"op": "insert", "id": person, "qid": {"age": at}, "sensitive": values})

    def leave(self, *people: str) -> None:
        for person in people:
            self.tell({"op": "delete", "id": person})

    def show(self, *groups: tuple[str, str], cohorts: Sequence[Sequence[str]]) -> None:
        """One release: of each group its people, and of some of them, marked, that they are shown as "*"."""
        self._shown = getattr(self, "_shown", 0) + 1
        published = {}
        for at, (people, hidden) in enumerate(groups):
            members = people.split()
            values: dict[str, int] = {}
            for person in members:
                label = "*" if person in hidden.split() else HIV if person.startswith("h") else OTHERS[0]
                values[label] = values.get(label, 0) + 1
            published[f"g{self._shown}.{at}"] = (self._shown, members, values)
        self.publish(published, cohorts={HIV: cohorts})

    def found(self) -> set[str]:
        return {sentence for sentence in self.sentences() if sentence.startswith("G3") or "cohorts" in sentence}


def ward(participation: Literal["all"] | int = "all", l: float = 3) -> Ward:
    return Ward(scarce_policy(l, participation))


COHORTS = (("h1", "h2"), ("a1", "a2"), ("b1", "b2"))
WHOLE = (("h1 a1 b1 c1", ""), ("h2 a2 b2 c2", ""), ("x y", ""))


def good_first(desk: Ward) -> None:
    desk.open().show(*WHOLE, cohorts=COHORTS)


def test_whole_cliques_with_spares_are_as_they_should_be() -> None:
    desk = ward()
    good_first(desk)
    desk.leave("c1")
    desk.show(("h1 a1 b1", ""), ("h2 a2 b2 c2 x y", ""), cohorts=COHORTS)
    desk.leave("h2", "a2")
    desk.show(("h1 a1 b1", ""), ("b2 c2 x y", "b2"), cohorts=(("h1",), ("a1",), ("b1",)))
    desk.arrive("h2")
    desk.show(("h1 a1 b1", ""), ("h2 b2 c2 x y", ""), cohorts=(("h1", "h2"), ("a1", "b2"), ("b1", "c2")))
    assert desk.found() == set()


def two_cliques_in_a_group(desk: Ward) -> None:
    good_first(desk)
    desk.leave("x")
    desk.show(("h1 a1 b1 c1 h2 a2 b2 c2", ""), ("y", ""), cohorts=COHORTS)


def torn_while_shown(desk: Ward) -> None:
    good_first(desk)
    desk.leave("y")
    desk.show(("h1 a1", ""), ("h2 a2 b2 c2", ""), ("b1 c1 x", ""), cohorts=(("h1", "h2"), ("a1", "a2"), ("b1", "b2")))


def torn_and_mended_with_a_stranger(desk: Ward) -> None:
    good_first(desk)
    desk.leave("y")
    desk.show(("h1 a1 x", ""), ("h2 a2 b2 c2", ""), ("b1 c1", ""), cohorts=(("h1", "h2"), ("a1", "a2"), ("x", "b2")))


def torn_while_the_holder_is_away(desk: Ward) -> None:
    good_first(desk)
    desk.leave("h1")
    desk.show(("a1 x", "a1"), ("b1 c1 y", "b1"), ("h2 a2 b2 c2", ""), cohorts=(("h2",), ("a2",), ("b2",)))


def one_star_for_two_holders(desk: Ward) -> None:
    good_first(desk)
    desk.leave("h1", "h2")
    desk.show(("a1 b1 c1 a2 b2 c2", "a1"), ("x y", ""), cohorts=((), (), ()))


def a_star_that_is_a_holders_own(desk: Ward) -> None:
    good_first(desk)
    desk.leave("h1", "a2", "b2")
    desk.show(("a1 b1 c1 h2 c2", "h2"), ("x y", ""), cohorts=((), (), ()))


def a_decoy_without_cover(desk: Ward) -> None:
    good_first(desk)
    desk.leave("h1")
    desk.show(("a1 b1 c1 x y", ""), ("h2 a2 b2 c2", ""), cohorts=(("h2",), ("a2",), ("b2",)))


def a_decoy_beside_another_holder(desk: Ward) -> None:
    good_first(desk)
    desk.leave("h1")
    desk.show(("a1 b1 c1 h2 a2 b2 c2", ""), ("x y", ""), cohorts=(("h2",), ("a2",), ("b2",)))


@pytest.mark.parametrize(
    ("publish", "expected"),
    [
        (two_cliques_in_a_group, {TWICE}),
        (torn_while_shown, {UNBALANCED, TOO_FEW}),
        (torn_and_mended_with_a_stranger, {"G3: a clique lists somebody who can be excluded", TOO_FEW}),
        (torn_while_the_holder_is_away, {TORN}),
        (one_star_for_two_holders, {SHARED, TOO_FEW}),
        (a_star_that_is_a_holders_own, {UNCOVERED, TOO_FEW}),
        (a_decoy_without_cover, {UNCOVERED, TOO_FEW}),
        (a_decoy_beside_another_holder, {UNCOVERED, TOO_FEW}),
    ],
)
def test_a_publisher_that_breaks_a_rule_of_all_is_found_out(
    publish: Callable[[Ward], None], expected: set[str]
) -> None:
    desk = ward()
    publish(desk)
    assert expected <= desk.found()


@pytest.mark.parametrize(
    "publish", [torn_while_the_holder_is_away, a_decoy_without_cover, a_decoy_beside_another_holder]
)
def test_without_participation_knowledge_decoys_are_replaced_and_the_same_is_only_reported(
    publish: Callable[[Ward], None],
) -> None:
    desk = ward(0)
    desk.everyone = (*Ward.everyone, "away")  # somebody else who could be the absent one
    publish(desk)
    assert desk.found() == set()
    report = desk.auditor.report(b"key")
    assert report.private is not None
    assert report.private.permanent is not None
    assert report.private.permanent.attacks[0].under == 0


@pytest.mark.parametrize(
    ("cohorts", "expected"),
    [
        ((("h1", "h2"), ("a1", "a2")), {"contract: the cohorts are not l lists of owners for each permanent value"}),
        ((("h1", "h2"), ("a1", "a2"), ("b1", "a1")), {"G3: a person owns two instances of a value", UNBALANCED}),
        ((("h1", "h2"), ("a1", "a2"), ("b1", "z")), {"contract: the cohorts list somebody who is not published"}),
        (
            (("h1", "x"), ("a1", "a2"), ("b1", "b2")),
            {"G3: the first cohort lists somebody who does not hold the value"},
        ),
        ((("h1", "c2"), ("a1", "h2"), ("b1", "b2")), {"G3: a cohort of decoys lists a holder"}),
        ((("h1", "h2"), ("a1", "b1"), ("a2", "b2")), {UNBALANCED}),
        ((("h1",), ("a1",), ("b1",)), {UNBALANCED}),
        ((("h1", "h2", "h1"), ("a1", "a2", "x"), ("b1", "b2", "y")), {UNBALANCED}),
        ((), {"contract: the cohorts are not l lists of owners for each permanent value", UNBALANCED}),
    ],
)
@pytest.mark.parametrize("participation", [0, "all"])
def test_cohorts_that_do_not_balance_are_found_out(
    cohorts: Sequence[Sequence[str]], expected: set[str], participation: Any
) -> None:
    desk = ward(participation)
    desk.open().show(*WHOLE, cohorts=cohorts)
    assert expected <= desk.found()


def test_a_group_with_fewer_than_l_people_for_each_time_it_shows_a_value_is_found_out_by_anyone() -> None:
    desk = ward(0, l=2.5)
    desk.open().show(("h1 a1", ""), ("h2 a2 b1 b2 c1 c2 x y", ""), cohorts=COHORTS)
    assert "G3: a group shows a permanent value for more than 1 in l of its people" in desk.found()


def test_a_carried_group_keeps_its_owners_unless_spares_may_stand_in() -> None:
    for is_all, expected in ((False, {"G3: a carried group has other owners"}), (True, set())):
        desk = ward("all" if is_all else 0)
        desk.open()
        groups = {
            name: (1, people.split(), {HIV: 1, OTHERS[0]: 3})
            for name, people in (("g1", "h1 a1 b1 c1"), ("g2", "h2 a2 b2 c2"))
        }
        groups["g3"] = (1, ["x", "y"], {OTHERS[0]: 2})
        desk.publish(groups, cohorts={HIV: COHORTS})
        desk.publish(groups, cohorts={HIV: (("h1", "h2"), ("a1", "a2"), ("c1", "b2"))})
        assert desk.found() == expected


def test_a_holder_who_was_never_shown_has_nobody_to_be_excluded() -> None:
    desk = ward()
    desk.open().show(("h1 x y", "h1"), ("h2 a2 b2 c2 a1 b1 c1", ""), cohorts=(("h2",), ("a2",), ("b2",)))
    assert desk.found() == set()
    assert [key[1] for key in redrawn(desk.auditor).permanent.alibis.of] == ["h2"]


def explained(desk: Ward) -> list[str]:
    report = desk.auditor.report(b"key")
    assert report.private is not None
    assert report.private.permanent is not None
    return [one.why for one in report.private.permanent.suppressed]


def test_each_suppression_is_explained_by_what_became_of_the_people_around_it() -> None:
    desk = ward()
    good_first(desk)
    desk.leave("a1", "b1")
    desk.tell({"op": "deregister", "id": "b1"})
    desk.show(("h1 c1 x", "h1"), ("h2 a2 b2 c2 y", ""), cohorts=(("h2",), ("a2",), ("b2",)))
    desk.show(("h1 c1 x", "h1"), ("h2 a2 b2 c2 y", "h2"), cohorts=((), (), ()))
    first, again, needless = explained(desk)
    assert first == again == "of the 2 people they were last shown with, in release 1, 1 is absent, 1 ceased to exist"
    assert needless.endswith("in release 2, all are in the group; the audit sees no need for it")


def test_who_moved_is_named_as_the_reason() -> None:
    desk = ward()
    good_first(desk)
    for person in ("h1", "a1", "b1"):
        desk.tell({"op": "update", "id": person, "qid": {"age": 90}})
    desk.show(("h1 c1 x", "h1"), ("a1 b1 y", "a1"), ("h2 a2 b2 c2", ""), cohorts=(("h2",), ("a2",), ("b2",)))
    assert explained(desk) == ["they moved, and of the 2 people they were last shown with, in release 1, 2 moved"]


def test_a_value_that_was_never_shown_is_explained_by_who_could_have_hidden_it() -> None:
    desk = ward()
    desk.open().show(("h1 x", "h1"), ("h2 a2 b2 c2 a1 b1 c1 y", ""), cohorts=(("h2",), ("a2",), ("b2",)))
    assert explained(desk) == [
        "it was never shown, and 2 clean people are needed in the group to hide them, of whom there is 1"
    ]


def test_a_report_lists_the_cohort_checks_and_names_nobody_and_no_value() -> None:
    desk = ward()
    one_star_for_two_holders(desk)
    report = desk.auditor.report(b"key")
    text = "\n".join(write_report(report))
    machine = json.dumps(report.as_json())
    assert "knowing the participation of nobody" in text
    assert "knowing the participation of everyone" in text
    assert "holder sets, counted for" in text
    for name in (*Ward.everyone, HIV, *OTHERS):
        assert not re.search(rf"\b{name}\b", text + machine)


def test_with_only_the_releases_the_promise_stays_undecided_while_a_permanent_value_is_shown() -> None:
    from shoal.core.audit import Auditor

    policy = scarce_policy(3, "all")
    assert "no permanent value was ever shown" in "\n".join(write_report(Auditor(policy).report(b"key")))
    desk = ward()
    seen = desk.auditor
    desk.auditor = Auditor(policy)
    see = desk.auditor.see
    desk.auditor.see = lambda stored, *_: see(stored)  # type: ignore[method-assign]  # nothing but what is published
    good_first(desk)
    (line,) = (line for line in write_report(desk.auditor.report(b"key")) if line.startswith("G3"))
    assert "not decided" in line
    assert "who owns what is a secret" in line
    assert seen is not desk.auditor


def test_a_table_without_permanent_values_lists_no_cohorts() -> None:
    from dataclasses import replace

    policy = scarce_policy(3, "all")
    desk = Ward(
        replace(policy, sensitive=policy.sensitive._replace(permanent=frozenset(), open=frozenset({0, 1, 2, 3})))
    )
    desk.open().show(*WHOLE, cohorts=COHORTS)
    assert "contract: cohorts are listed, and the policy has no permanent values" in desk.sentences()
