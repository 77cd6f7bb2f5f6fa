"""Balancing: every group is even, few enough values are counterfeit, and renaming the values changes nothing."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.signatures.balance import NO_GROUP, Balanced, Members, Standing, balance

M = 4
NONE = np.zeros(0, dtype=np.int64)
NOWHERE = Standing(NONE, NONE, NONE, np.zeros(0))
seeds = st.integers(0, 10_000)


def draw_members(seed: int, signatures: int = 3) -> Members:
    """Entries of a few signatures, some in groups, some newcomers."""
    random = Random(seed)
    lines = []
    for signature in range(signatures):
        for _ in range(random.randrange(30)):
            group = random.choice([NO_GROUP, 1 + 2 * signature, 2 + 2 * signature])
            lines.append((signature, random.randrange(M), group, random.randrange(100)))
    table = np.array(lines, dtype=np.int64).reshape(-1, 4)
    draws = np.array([random.getrandbits(60) for _ in lines], dtype=np.uint64)
    is_new = table[:, 2] == NO_GROUP
    family = np.zeros(len(lines), dtype=np.int64)
    return Members(table[:, 0], table[:, 1], table[:, 2], table[:, 3], draws.__getitem__, family, is_new)


def run(members: Members, most: int = 1000, enough: int = 1000, whole: Standing = NOWHERE) -> Balanced:
    sizes = np.full(3, M, dtype=np.int64)
    return balance(members, sizes, whole, NONE, most_counterfeits=most, enough=enough, next_group=100)


def counterfeits(members: Members, made: Balanced) -> int:
    return int(made.rounds.sum()) * M - int(np.count_nonzero(made.group != NO_GROUP))


@given(seeds, st.integers(0, 20))
def test_every_group_is_even_and_counterfeits_are_few(seed: int, most: int) -> None:
    members = draw_members(seed)
    made = run(members, most)
    for group, rounds in zip(made.groups.tolist(), made.rounds.tolist(), strict=True):
        mine = np.flatnonzero(made.group == group)
        counts = np.bincount(members.slot[mine], minlength=M)
        assert len(set(members.signature[mine].tolist())) == 1
        assert counts.max() <= rounds
        assert (rounds * M - len(mine)) * 4 <= rounds * M
    assert counterfeits(members, made) <= most


@given(seeds)
def test_renaming_the_values_of_a_signature_changes_nothing(seed: int) -> None:
    members = draw_members(seed)
    renamed = members._replace(slot=np.array([2, 3, 1, 0])[members.slot])
    assert (run(members, 8, 4).group == run(renamed, 8, 4).group).all()


@given(seeds)
def test_nearly_empty_rounds_are_given_up_only_where_nobody_is_new(seed: int) -> None:
    members = draw_members(seed)
    roomy, spare = run(members), run(members, enough=0)
    lost = (roomy.group != NO_GROUP) & (spare.group == NO_GROUP)
    assert not (lost & members.is_new).any()
    assert counterfeits(members, spare) == counterfeits(members, roomy) - 3 * np.count_nonzero(lost)


def test_one_entry_with_three_counterfeits_is_given_up_when_there_are_enough() -> None:
    slots = [0, 1, 2, 3] * 8 + [0]
    members = draw_members(0)._replace(
        signature=np.zeros(33, dtype=np.int64),
        slot=np.array(slots),
        group=np.ones(33, dtype=np.int64),
        place=np.arange(33),
        draw=np.arange(33, dtype=np.uint64).__getitem__,
        family=np.zeros(33, dtype=np.int64),
        is_new=np.zeros(33, dtype=bool),
    )
    assert np.count_nonzero(run(members, enough=3).group == NO_GROUP) == 0
    assert np.flatnonzero(run(members, enough=2).group == NO_GROUP).tolist() == [32]


@given(seeds)
def test_a_group_that_lacks_nobody_is_balanced_the_same_whether_its_members_are_looked_at_or_not(seed: int) -> None:
    members = draw_members(seed)
    slots = np.tile(np.arange(M), 8)
    group = np.full(len(slots), 50)
    theirs = members._replace(
        signature=np.ones(len(slots), dtype=np.int64),
        slot=slots,
        group=group,
        place=np.full(len(slots), 20),
        draw=np.arange(len(slots), dtype=np.uint64).__getitem__,
        family=np.zeros(len(slots), dtype=np.int64),
        is_new=np.zeros(len(slots), dtype=bool),
    )
    draws = np.r_[members.draw(np.arange(len(members.slot))), theirs.draw(np.arange(len(slots)))]
    columns = (np.r_[mine, other] for mine, other in zip(members, theirs, strict=True) if not callable(mine))
    signature, slot, numbers, place, family, is_new = columns
    everybody = Members(signature, slot, numbers, place, draws.__getitem__, family, is_new)
    whole = Standing(np.array([50]), np.array([1]), np.array([8]), np.array([20.0]))
    looked_at, skipped = run(everybody, 8, 4), run(members, 8, 4, whole)
    assert looked_at.group.tolist() == [*skipped.group.tolist(), *group.tolist()]
    assert looked_at.groups.tolist() == skipped.groups.tolist()
    assert looked_at.rounds.tolist() == skipped.rounds.tolist()
