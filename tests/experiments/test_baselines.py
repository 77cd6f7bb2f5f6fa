"""What Shoal is compared with in Bu's rounds does what its papers say, and one attack reads them all."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from shoal.core.audit.attack.persistence import PersistenceAttack
from shoal.core.audit.attack.shown import ShownGroup
from shoal.core.audit.attack.worlds import Token
from shoal.core.measure.release_reader import read_columns
from shoal.core.plan import Window, plan
from shoal.core.policy.policy import Policy
from shoal.core.state import State
from tests.experiments.baselines import LDiversity, MInvariance
from tests.experiments.breach import Breaches
from tests.experiments.permanent import Clinic, Round
from tests.experiments.series import Figures, Step, Table
from tests.experiments.sheet import (
    Homes,
    Sheet,
    certainly_published,
    clues_of_list,
    clues_of_members,
    count_inside,
    number_of,
    sheet_of,
)
from tests.support.histories.staying import live, truth

SMALL = replace(Clinic(), people=1_200, reactions=3_000, kinds=60, sensitive=10, rounds=6)


@pytest.fixture(scope="module")
def rounds() -> list[Round]:
    return list(SMALL.rounds_of())


def values_of(sheet: Sheet) -> dict[int, Counter[int]]:
    """What each group shows, by leaf code."""
    published = sheet.published
    leaf = {node: code for code, node in enumerate(published.policy.sensitive.hierarchy.leaf_node)}
    found: defaultdict[int, Counter[int]] = defaultdict(Counter)
    columns = (published.shown_group, published.shown_node, published.shown_count)
    for group, node, count in zip(*(column.tolist() for column in columns), strict=True):
        found[group][leaf[node]] += count
    return found


def people_of(sheet: Sheet) -> dict[int, list[int]]:
    found: defaultdict[int, list[int]] = defaultdict(list)
    for person, group in zip(sheet.person.tolist(), sheet.group.tolist(), strict=True):
        found[group].append(person)
    return found


def assert_boxes_hold_their_people(sheet: Sheet, table: Table) -> None:
    qids = {number_of(person): qid for person, (qid, _) in table.items()}
    low, high = np.stack(sheet.published.low, axis=1), np.stack(sheet.published.high, axis=1)
    points = np.array([qids[person] for person in sheet.person.tolist()])
    assert np.all((low[sheet.cell] <= points) & (points < high[sheet.cell]))


@pytest.mark.parametrize("l", [2, 3])
def test_every_class_of_l_diversity_has_k_people_and_no_value_of_more_than_one_in_l(
    rounds: list[Round], l: int
) -> None:
    publisher = LDiversity(SMALL.policy_for(0, l=l))
    for one in rounds:
        sheet = publisher.publish(one.table)
        assert sorted(sheet.person.tolist()) == sorted(map(number_of, one.table))
        assert_boxes_hold_their_people(sheet, one.table)
        shown = values_of(sheet)
        for group, people in people_of(sheet).items():
            truth = Counter(value for person in people for value in one.table[f"p{person}"][1])
            assert shown[group] == truth
            assert len(people) >= 5
            assert max(truth.values()) * l <= len(people)


@pytest.mark.parametrize("m", [2, 3, 5])
def test_every_group_of_m_invariance_shows_at_least_m_values_once_each(rounds: list[Round], m: int) -> None:
    publisher = MInvariance(SMALL.policy_for(0, l=m))
    counterfeits = 0
    for one in rounds:
        sheet = publisher.publish(one.table)
        assert_boxes_hold_their_people(sheet, one.table)
        assert Counter(sheet.person.tolist()) == {number_of(p): len(values) for p, (_, values) in one.table.items()}
        shown, people = values_of(sheet), people_of(sheet)
        for group, counts in shown.items():
            assert len(counts) >= m
            assert set(counts.values()) == {1}
            assert len(people[group]) + sheet.published.spare[group] == len(counts)
        counterfeits += int(sheet.published.spare.sum())
    assert counterfeits > 0


@pytest.mark.parametrize("m", [2, 3, 5])
def test_m_invariance_shows_a_record_with_the_same_values_for_as_long_as_it_is_there(
    rounds: list[Round], m: int
) -> None:
    publisher = MInvariance(SMALL.policy_for(0, l=m))
    before: dict[tuple[int, int], tuple[int, ...]] = {}
    kept = 0
    for one in rounds:
        sheet = publisher.publish(one.table)
        shown = {group: tuple(sorted(counts)) for group, counts in values_of(sheet).items()}
        seen = defaultdict(set)
        for person, group in zip(sheet.person.tolist(), sheet.group.tolist(), strict=True):
            seen[person].add(shown[group])
        now = dict(publisher.signatures)
        assert now.keys() == {(number_of(p), value) for p, (_, values) in one.table.items() for value in values}
        for (person, value), signature in now.items():
            assert value in signature
            assert signature in seen[person]
            assert before.get((person, value), signature) == signature
        kept += len(before.keys() & now.keys())
        before = now
    assert kept > 1_000


def test_m_invariance_forgets_people_who_were_away_for_a_release() -> None:
    """Bu, section III: the record that comes back is a new one, without the signature of the old."""
    publisher = MInvariance(SMALL.policy_for(0))
    table: Table = {f"p{at}": ((at, 0, 50, 0), (at % 8,)) for at in range(40)}
    publisher.publish(table)
    first = publisher.signatures[0, 0]
    others = {person: ((1, 0, 50, 0), (0 if person == "p1" else 9 + number_of(person),)) for person in table}
    publisher.publish({person: others[person] for person in table if person != "p0"})
    publisher.publish({**others, "p0": table["p0"], "p40": ((2, 0, 50, 0), (59,))})
    assert publisher.signatures[0, 0] == (0, 59)
    assert 59 not in first


def test_a_value_that_is_too_frequent_is_published_with_counterfeits() -> None:
    publisher = MInvariance(SMALL.policy_for(0, l=3))
    sheet = publisher.publish({f"p{at}": ((at, 0, 50, 0), (7,)) for at in range(5)})
    assert len(sheet.published.group_rows) == 5
    assert sheet.published.spare.tolist() == [2] * 5
    assert all(set(counts) == {0, 1, 7} for counts in values_of(sheet).values())


def test_points_in_boxes_are_counted_as_one_would_by_looking() -> None:
    random = np.random.default_rng(3)
    points = random.integers(2, 9, (300, 3))
    low = random.integers(0, 9, (50, 3))
    high = low + random.integers(1, 6, (50, 3))
    looked = [(points >= one) & (points < other) for one, other in zip(low, high, strict=True)]
    expected = [int(inside.all(axis=1).sum()) for inside in looked]
    assert count_inside(points, low, high).tolist() == expected


def test_where_everyone_registered_is_present_the_list_tells_who_is_where(rounds: list[Round]) -> None:
    policy, table = SMALL.policy_for(0), rounds[-1].table
    sheet = LDiversity(policy).publish(table)
    node = policy.sensitive.hierarchy.leaf_node[max(policy.sensitive.permanent)]
    homes = Homes(sheet.person, np.array([qid for qid, _ in table.values()], dtype=np.int64))
    there = certainly_published(sheet, homes)
    assert there == set(sheet.person.tolist())
    of_list, of_members = clues_of_list(sheet, node, homes, there), clues_of_members(sheet, node)
    assert of_members.groups
    assert of_list == of_members


def test_one_absent_neighbour_makes_everyone_of_a_class_uncertain(rounds: list[Round]) -> None:
    policy, table = SMALL.policy_for(0), rounds[-1].table
    sheet = LDiversity(policy).publish(table)
    points = np.array([qid for qid, _ in table.values()], dtype=np.int64)
    absent = 10**6
    homes = Homes(np.append(sheet.person, absent), np.vstack([points, points[:1]]))
    mates = set(sheet.person[sheet.group == sheet.group[0]].tolist())
    there = certainly_published(sheet, homes)
    assert there == set(sheet.person.tolist()) - mates
    for node in policy.sensitive.hierarchy.leaf_node:
        for clue in clues_of_list(sheet, node, homes, there).groups:
            assert (absent in clue.may) == bool(clue.may & mates)
            assert not clue.must & mates


def test_every_baseline_gives_holders_away_and_shoal_none_to_whom_it_is_promised(rounds: list[Round]) -> None:
    """Each beside what its adversary may know: everyone's participation under `all`, the list alone under K = 0."""
    policy = SMALL.policy_for(0)
    for publisher in (LDiversity(policy), MInvariance(policy)):
        found = attack(policy, rounds, [publisher.publish(one.table) for one in rounds])
        assert found["holders_shown"] > 20
        assert found["breached_members_share"] > 0.2
        assert found["breached_list"] <= found["breached_members"]
    found = attack(SMALL.policy_for("all"), rounds, shoal(SMALL.policy_for("all"), rounds))
    assert found["holders_shown"] > 20
    assert found["breached_members"] == found["breached_list"] == 0
    found = attack(policy, rounds, shoal(policy, rounds))
    assert found["breached_list"] == 0
    assert found["breached_members"] > 0, "or the attack is too weak to say anything"


def shoal(policy: Policy, rounds: Sequence[Round]) -> Iterator[Sheet]:
    state = State.empty(policy, b"test")
    for number, one in enumerate(rounds, start=1):
        made = plan(state, Window(None, {0: one.window}), policy, number)
        state.apply(made.change)
        yield sheet_of(Step(number, one.table, made, read_columns(policy, made.release.records), 0.0))


def attack(policy: Policy, rounds: Sequence[Round], sheets: Iterable[Sheet]) -> Figures:
    breaches, found = Breaches(policy), Figures()
    for number, (one, sheet) in enumerate(zip(rounds, sheets, strict=True), start=1):
        found = breaches.see(number, one.table, one.homes, sheet)
    return found


def test_people_who_come_back_are_given_away_by_m_invariance_if_their_values_stay(rounds: list[Round]) -> None:
    """The persistence attack: a record that returns is another record, with another signature and the same value."""
    m, values = 4, 60
    publisher, attack = MInvariance(SMALL.policy_for(0, l=m)), PersistenceAttack(values, is_by_person=False)
    qids = [qid for qid, _ in rounds[-1].table.values()]
    for table in live(500, 8, values, stay=1.0, seed=3, leave=0.15):
        sheet = publisher.publish({p: (qids[number_of(p)], (value,)) for p, value in table.items()})
        people = {group: [f"p{number}" for number in rows] for group, rows in people_of(sheet).items()}
        shown: dict[int, dict[Token, int]] = {
            group: {(leaf,): count for leaf, count in counts.items()} for group, counts in values_of(sheet).items()
        }
        attack.see([ShownGroup(group, rows, shown[group]) for group, rows in people.items()], truth(table))
    (claims,) = attack.claims(1 / m, (), (0.95,))
    assert claims.sure > 40
    assert claims.sure_right > 0.9 * claims.sure
