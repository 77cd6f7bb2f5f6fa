"""Random histories of sharded tables, whose people move between shards all the time, through engine and auditor.

Every rule that shards add has a wrong engine that breaks it, and the auditor finds it out.
"""

import json
import random
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from shoal.core.cells.tree import Tree
from shoal.core.plan import Window
from shoal.core.policy.policy import build_policy
from shoal.core.randomness import Keyed
from shoal.core.shards.lasting import LastingShard
from shoal.core.shards.table import Table, TablePlan, people_needed
from shoal.core.signatures.blocks import Neighbours
from shoal.core.signatures.entries import HELD, EntryRecord
from shoal.core.state import RECORDS, State
from tests.support.engines.sharded import KEY, Ward
from tests.support.histories.mixed import draw_policy
from tests.support.histories.moving import draw_hamlet, draw_moving, hamlet


def draw_ward(seed: int, shards: int, people: int | None = None, **numbers: Any) -> Ward:
    """One random history, lived to its end."""
    draw = random.Random(seed)
    policy = replace(draw_policy(draw), shards=shards, full_every=draw.choice([1, 1, 3]), **numbers)
    # Some of the people of a history leave at once, and a third of the ids is never met.
    people = people or people_needed(policy) * 2
    return Ward(policy).live(draw_moving(draw, policy, people, draw.choice([3, 4])))


@pytest.mark.parametrize(("shards", "seeds"), [(2, 16), (5, 8), (16, 3)])
def test_every_promise_is_kept_in_random_histories_of_people_who_move(shards: int, seeds: int) -> None:
    published = moves = 0
    for seed in range(seeds):
        ward = draw_ward(seed, shards)
        assert ward.findings() == set(), seed
        published, moves = published + ward.published, moves + ward.moves
    assert published > 20 * shards * seeds
    assert moves > 5 * shards * seeds


def draw_worlds(seeds: range) -> tuple[int, int, int]:
    """Of small tables: how many have several worlds, how many are not as likely as promised, how many people moved."""
    counted = broken = moves = 0
    for seed in seeds:
        ward = Ward(hamlet()).live(draw_hamlet(random.Random(seed)))
        worlds = ward.worlds
        assert worlds is not None
        counted += worlds.worlds > 1
        broken += not worlds.is_kept(Fraction(1, 2))
        moves += ward.moves
    return counted, broken, moves


def test_all_worlds_of_small_tables_are_as_likely_as_promised() -> None:
    """With up to twenty people the auditor counts every world: every spell is each value of its signature."""
    counted, broken, moves = draw_worlds(range(80))
    assert broken == 0
    assert counted > 60
    assert moves > 500


def test_the_worlds_of_people_who_get_new_signatures_where_they_go_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    _give_movers_new_signatures(monkeypatch)
    assert draw_worlds(range(20))[1] > 10


@pytest.mark.slow
@pytest.mark.parametrize(("shards", "first"), [(shards, first) for shards in (2, 5, 16) for first in (1000, 1020)])
def test_every_promise_is_kept_in_many_random_histories_of_people_who_move(shards: int, first: int) -> None:
    for seed in range(first, first + (20 if shards < 16 else 5)):
        assert draw_ward(seed, shards).findings() == set(), seed


class Restarting(Ward):
    """Plans every release twice: with everything in memory, and with what was stored, read in any order."""

    def plan(self, window: Window) -> TablePlan:
        draw = random.Random(self.table.meta.release)
        made, stored = super().plan(window), self._reloaded(draw)
        deltas = {0: dict(draw.sample(list(window.deltas[0].items()), len(window.deltas[0])))}
        again = stored.plan(window._replace(deltas=deltas), made.meta.release)
        assert again.manifest == made.manifest
        assert (again.cells, again.groups, again.cohorts) == (made.cells, made.groups, made.cohorts)
        for state, mine, part in zip(self._reloaded(draw).states, stored.states, again.parts, strict=True):
            state.apply(replace(part.change, after=None))  # by its records, as Redis does
            mine.apply(part.change)
            for name in RECORDS:
                assert sorted(state.records(name)) == sorted(mine.records(name)), name
        return made

    def _reloaded(self, draw: random.Random) -> Table:
        states = []
        for state in self.table.states:
            records = {name: list(state.records(name)) for name in RECORDS}
            shuffled = {name: draw.sample(found, len(found)) for name, found in records.items()}
            states.append(State.load(self.policy, KEY, state.meta, Keyed, state.shard, **shuffled))
        return Table(self.policy, states, self.table.cuts, self.table.meta)


@pytest.mark.parametrize("seed", range(200, 212))
def test_a_restart_in_any_order_gives_the_same_bytes(seed: int) -> None:
    """Also where somebody comes back to a shard that has forgotten them, and to one that has been read anew."""
    draw = random.Random(seed)
    policy = replace(draw_policy(draw), shards=3)
    ward = Restarting(policy).live(draw_moving(draw, policy, people_needed(policy) * 2, 6))
    assert ward.moves > 20


def _give_movers_new_signatures(patch: pytest.MonkeyPatch) -> None:
    """S1: somebody who moves is a newcomer."""

    def forget(self: LastingShard, brought: Any) -> EntryRecord:
        return EntryRecord(brought.value, -1, -1, brought.flags & HELD, 0)

    patch.setattr(LastingShard, "_entry", forget)


def _forget_cliques(patch: pytest.MonkeyPatch) -> None:
    """Permanent values: somebody who moves may be in another clique of the same value."""
    patch.setattr(LastingShard, "_receive_bonds", lambda self: None)


def _forget_trails(patch: pytest.MonkeyPatch) -> None:
    """Other publishers: where somebody was before they moved is forgotten."""
    patch.setattr("shoal.core.shards.desk._trail", lambda before, after, delta: ())


def _grow_everywhere(patch: pytest.MonkeyPatch) -> None:
    """Regions: a shard's tree grows below the whole space, so that its cells lie outside its region."""
    init = Tree.__init__
    patch.setattr(Tree, "__init__", lambda self, attributes, box=None: init(self, attributes))


def _never_move(patch: pytest.MonkeyPatch) -> None:
    """Homes: people stay in the shard where they were first, wherever they live."""
    patch.setattr("shoal.core.shards.desk._after", lambda policy, one, delta, number: one.person)


def _name_alike(patch: pytest.MonkeyPatch) -> None:
    """Groups: those of all shards have the same names, so that a group reaches across."""
    for room in ("publication", "draft"):
        patch.setattr(f"shoal.core.{room}.shard_prefix", lambda shard: "s0-")


def _forget_erasures(patch: pytest.MonkeyPatch) -> None:
    """Erasure: what is left of somebody erased does not follow them."""
    from shoal.core.shards import desk

    pack = desk._pack

    def forget(*arguments: Any, is_erased: bool) -> Any:
        packed = pack(*arguments, is_erased=is_erased)
        return packed._replace(entries=()) if is_erased else packed

    patch.setattr(desk, "_pack", forget)


@pytest.mark.parametrize(
    ("spoil", "promise", "first"),
    [
        (_give_movers_new_signatures, "G2", 300),
        (_forget_cliques, "G3", 300),
        (_forget_trails, "G5", 398),
        (_grow_everywhere, "G1", 300),
        (_never_move, "G1", 300),
        (_name_alike, "contract", 300),
        (_forget_erasures, "G2", 328),
    ],
)
def test_an_engine_without_a_rule_is_found_out(
    monkeypatch: pytest.MonkeyPatch, spoil: Any, promise: str, first: int
) -> None:
    monkeypatch.setattr(Table, "check_invariants", lambda self: None)  # the auditor is to find it
    assert draw_ward(first, 2).findings() == set()
    spoil(monkeypatch)
    for seed in range(first, first + 50):
        with suppress(IndexError):  # a tree that grows among people of another region may break
            if any(sentence.startswith(promise) for sentence in draw_ward(seed, 2).findings()):
                return
    pytest.fail("nobody noticed")


def _two_towns() -> Ward:
    """Old people on the left and young ones on the right have other values; then somebody else publishes of both."""
    labels = [f"d{rank}" for rank in range(8)]
    document = {
        "table": "towns",
        "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
        "sensitive": {"name": "disease", "values": labels},
        "privacy": {"k": 2, "l": 2, "signature": 4},
        "scale": {"shards": 2},
    }
    ward = Ward(build_policy(document, {}, b"towns"))
    towns = ((0, labels[:4]), (50, labels[::2]))
    ward.live([*_settle("old", towns), {"op": "release"}])
    external = {"region": {"age": {"min": 0, "max": 99}}, "sensitive": dict.fromkeys(labels, 1)}
    ward.live([{"op": "external", "publisher": "other", "groups": [external]}, {"op": "release"}])
    return ward.live([*_settle("new", ((0, labels), (50, labels))), {"op": "release"}])


def _settle(name: str, towns: Any) -> list[dict[str, Any]]:
    return [
        {
            "op": "insert",
            "id": f"{name}{first + at}",
            "qid": {"age": first + at},
            "sensitive": [values[at % len(values)]],
        }
        for first, values in towns
        for at in range(40)
    ]


def test_beside_another_publication_a_shard_that_knows_only_its_own_people_shows_nothing_new() -> None:
    ward = _two_towns()
    assert ward.findings() == set()
    shown = {json.loads(line)["id"] for part in ward.made[-1].parts for line in part.members.lines()}
    assert len(shown) == 160
    assert {tuple(json.loads(group)["sensitive"]) for group in ward.made[-1].groups} == {
        ("d0", "d1", "d2", "d3"), ("d0", "d2", "d4", "d6"), ("*",),
    }  # fmt: skip


def test_blocks_that_every_shard_cuts_for_its_own_people_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    of = Neighbours.of
    monkeypatch.setattr(Neighbours, "of", lambda policy, *others: of(replace(policy, shards=1), *others))
    assert {sentence.partition(":")[0] for sentence in _two_towns().findings()} == {"G5"}


class Reaching(Ward):
    """Publishes a group of shard 1 with rows of its own that it says are in a cell of shard 0."""

    def plan(self, window: Window) -> TablePlan:
        made = super().plan(window)
        home, other = made.parts[:2]
        if not home.cells or not other.groups:
            return made
        cell, group = json.loads(home.cells[0])["cell"], json.loads(other.groups[0])
        group["cells"] = {cell: sum(group["cells"].values())}
        changed = replace(other, groups=(json.dumps(group, separators=(",", ":")).encode(), *other.groups[1:]))
        return replace(made, parts=(home, changed, *made.parts[2:]))


def test_a_group_that_reaches_across_shards_is_found_out() -> None:
    draw = random.Random(300)
    policy = replace(draw_policy(draw), shards=2)
    ward = Reaching(policy).live(draw_moving(draw, policy, people_needed(policy) * 2, 3))
    assert "G1: a group has rows in another shard" in ward.findings()
