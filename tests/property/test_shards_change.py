"""Random histories of sharded tables over a change of policy, through engine, auditor and enumerator.

People move between shards, hold permanent values, name guards, leave, come back and are erased. In the middle another
policy takes over: new values, a new category, other numbers. Every rule that a change adds has a wrong engine that
breaks it, and the judges find it out.
"""

import random
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from shoal.core import change
from shoal.core.audit.criteria.lasting.guards import NOT_STARRED, LastingGuards
from shoal.core.cells.shard import Shard
from shoal.core.parts import PartPlan
from shoal.core.policy.policy import Policy
from shoal.core.shards.lasting import LastingShard
from shoal.core.shards.moves import ShardWindow
from shoal.core.shards.part import plan_part
from shoal.core.shards.table import Table
from shoal.core.signatures.entries import STARRED, EntryRecord
from shoal.core.signatures.verdict import Judge
from shoal.core.state import State
from tests.support.engines.sharded import Ward
from tests.support.engines.watched_shards import Restarting
from tests.support.histories.changing import draw_changing, draw_changing_hamlet, draw_policies, hamlets


def draw_ward(seed: int, shards: int, ward: type[Ward] = Ward) -> Ward:
    """One random history with a change of policy, lived to its end."""
    draw = random.Random(seed)
    policies = draw_policies(draw, shards)
    return ward(*policies).live(draw_changing(draw, policies))


@pytest.mark.parametrize(("shards", "seeds"), [(2, 20), (5, 6), (16, 3)])
def test_every_promise_is_kept_over_a_change_to_people_who_move(shards: int, seeds: int) -> None:
    published = moves = late = 0
    for seed in range(seeds):
        ward = draw_ward(seed, shards)
        assert ward.findings() == set(), seed
        assert ward.table.policy is ward.after
        published, moves = published + ward.published, moves + ward.moves
        late += ward.made[1].cuts is None
    assert published > 20 * shards * seeds
    assert moves > 5 * shards * seeds
    assert 0 < late < seeds, "in some histories there are shards only after the change"


@pytest.mark.parametrize("seed", range(6))
def test_a_restart_before_at_and_after_a_change_gives_the_same_bytes(seed: int) -> None:
    assert draw_ward(seed, 3, Restarting).moves > 10


def test_what_is_shown_goes_on_where_a_guard_comes_to_cover_an_open_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """An auditor who forgets since when the open value has been there would take every such row for a wrong one."""
    assert draw_ward(150, 2).findings() == set()
    monkeypatch.setattr(LastingGuards, "_came", lambda self, leaf: 0)
    assert draw_ward(150, 2).findings() == {f"G4: {NOT_STARRED}"}


# -- possible worlds ----------------------------------------------------------------------------------------------


def draw_worlds(patch: pytest.MonkeyPatch, seeds: range, shards: int) -> tuple[int, int, int]:
    """Of small tables: how many have several worlds, how many are not as likely as promised, how many people moved."""
    patch.setattr("shoal.core.cuts.people_needed", lambda policy: 12)
    counted = broken = moves = 0
    for seed in seeds:
        ward = Ward(*hamlets(shards)).live(draw_changing_hamlet(random.Random(seed), shards))
        worlds = ward.worlds
        assert worlds is not None
        counted += worlds.worlds > 1
        broken += not worlds.is_kept(Fraction(1, 2))
        moves += ward.moves
    return counted, broken, moves


@pytest.mark.parametrize(("shards", "seeds"), [(2, 16), (5, 12), (16, 8)])
def test_all_worlds_of_small_tables_are_as_likely_as_promised_over_a_change(
    monkeypatch: pytest.MonkeyPatch, shards: int, seeds: int
) -> None:
    """No world gives a spell a value that came after it began: such a value would be excluded in a signature."""
    counted, broken, moves = draw_worlds(monkeypatch, range(seeds), shards)
    assert broken == 0
    assert counted > seeds // 2
    assert moves > 6 * seeds


@pytest.mark.parametrize("shards", [2, 5, 16])
def test_the_worlds_of_values_that_are_shown_among_new_ones_are_not(
    monkeypatch: pytest.MonkeyPatch, shards: int
) -> None:
    _show_among_new(monkeypatch)
    assert draw_worlds(monkeypatch, range(6), shards)[1] > 0


# -- wrong engines ------------------------------------------------------------------------------------------------


def _show_among_new(patch: pytest.MonkeyPatch) -> None:
    """A value that began before the change and was not shown by then takes a signature with a new leaf."""

    def translate(self: change.Translation, entry: EntryRecord) -> EntryRecord:
        return entry if entry.value < 0 else entry._replace(value=int(self._values[entry.value]))

    patch.setattr(change.Translation, "_entry", translate)


def _show_movers_among_new(patch: pytest.MonkeyPatch) -> None:
    """That a value is "*" since the change is forgotten when its person moves to another shard."""
    entry = LastingShard._entry

    def forget(self: LastingShard, brought: Any) -> EntryRecord:
        return entry(self, brought._replace(flags=brought.flags & ~STARRED))

    patch.setattr(LastingShard, "_entry", forget)


def _arrive_anew(patch: pytest.MonkeyPatch, **forgotten: Any) -> None:
    """Of those who move in the release of the change, something is forgotten."""

    def forget(
        state: State, window: ShardWindow, policy: Policy, number: int, shard: Shard, changed: Policy | None
    ) -> PartPlan:
        if changed is not None:
            arrivals = {handle: one._replace(**forgotten) for handle, one in window.arrivals.items()}
            window = window._replace(arrivals=arrivals)
        return plan_part(state, window, policy, number, shard, changed)

    patch.setattr("shoal.core.shards.table.plan_part", forget)


def _forget_histories(patch: pytest.MonkeyPatch) -> None:
    """S1: those who move in the release of the change are newcomers."""
    _arrive_anew(patch, entries=())


def _forget_cliques(patch: pytest.MonkeyPatch) -> None:
    """Permanent values: those who move in the release of the change may be in another clique of the same value."""
    _arrive_anew(patch, bound=())


def _keep_numbers(patch: pytest.MonkeyPatch) -> None:
    """Cliques: the values of those that exist keep their numbers, which mean other values from the change on."""
    patch.setattr(change.Translation, "_bond", lambda self, bond: bond)


def _forget_trails(patch: pytest.MonkeyPatch) -> None:
    """Other publishers: where somebody was before the change is forgotten."""
    person = change.Translation._person
    patch.setattr(change.Translation, "_person", lambda self, one: person(self, one)._replace(trail=()))


def _judge_by_old_guards(patch: pytest.MonkeyPatch) -> None:
    """Guards: an open value that came with the change is not covered by a guard on a node above it."""
    guarded = Judge._guarded

    def without_new(self: Judge, guard: Any) -> frozenset[int] | None:
        now, sensitive = self.policy, self.policy.sensitive
        known = frozenset(leaf for leaf in sensitive.open if sensitive.hierarchy.leaves[leaf].startswith("d"))
        self.policy = replace(now, sensitive=sensitive._replace(open=known))
        found = guarded(self, guard)
        self.policy = now
        return found

    patch.setattr(Judge, "_guarded", without_new)


@pytest.mark.parametrize(
    ("spoil", "promise", "first"),
    [
        (_show_among_new, "G2: a value is shown among values that were not there yet", 0),
        (_show_movers_among_new, "G2: a value is shown among values that were not there yet", 0),
        (_forget_histories, "G2", 2),
        (_forget_cliques, "G3", 1),
        (_keep_numbers, "G3", 22),
        (_forget_trails, "G5", 117),
        (_judge_by_old_guards, "G4", 45),
    ],
)
def test_an_engine_that_forgets_a_rule_over_a_change_is_found_out(
    monkeypatch: pytest.MonkeyPatch, spoil: Any, promise: str, first: int
) -> None:
    monkeypatch.setattr(Table, "check_invariants", lambda self: None)  # the auditor is to find it
    assert draw_ward(first, 2).findings() == set()
    spoil(monkeypatch)
    for seed in range(first, first + 20):
        with suppress(KeyError):  # a value that is said to be permanent, and is not, has no cohorts
            if any(sentence.startswith(promise) for sentence in draw_ward(seed, 2).findings()):
                return
    pytest.fail("nobody noticed")
