"""Random histories of sharded tables, whose people move between shards all the time, through engine and auditor.

Every rule that shards add has a wrong engine that breaks it, and the auditor finds it out.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from shoal.core.cells.tree import Tree
from shoal.core.plan import Window
from shoal.core.policy.policy import Policy, build_policy
from shoal.core.shards.lasting import LastingShard
from shoal.core.shards.table import Table, TablePlan, people_needed
from shoal.core.signatures.blocks import Neighbours
from shoal.core.signatures.bonds import Bonds, Site, show_bonds
from shoal.core.signatures.entries import BARRED, HELD, NO_SIGNATURE, STARRED, Entries, EntryRecord
from shoal.core.signatures.group import Groups
from tests.support.engines.sharded import Ward
from tests.support.engines.watched_shards import Marking, Restarting
from tests.support.histories.mixed import draw_policy, narrow_policy, transient_labels
from tests.support.histories.moving import draw_hamlet, draw_moving, draw_restless_movers, hamlet


def draw_ward(seed: int, shards: int, people: int | None = None, **numbers: Any) -> Ward:
    """One random history, lived to its end."""
    draw = random.Random(seed)
    policy = replace(draw_policy(draw), shards=shards, full_every=draw.choice([1, 1, 3]), **numbers)
    # Some of the people of a history leave at once, and a third of the ids is never met.
    people = people or people_needed(policy) * 2
    return Ward(policy).live(draw_moving(draw, policy, people, draw.choice([3, 4])))


def draw_restless_ward(seed: int, ward: type[Ward] = Ward) -> Ward:
    """People of two shards who move all the time, and whose values come and go: the same ones, again and again."""
    draw = random.Random(seed)
    policy = draw_policy(draw)
    while len(transient_labels(policy)) < 4:
        policy = draw_policy(draw)
    policy = replace(policy, shards=2)
    return ward(policy).live(draw_restless_movers(draw, policy, people_needed(policy) * 3 // 2, 7))


@pytest.mark.parametrize(("shards", "seeds"), [(2, 16), (5, 8), (16, 3)])
def test_every_promise_is_kept_in_random_histories_of_people_who_move(shards: int, seeds: int) -> None:
    published = moves = 0
    for seed in range(seeds):
        ward = draw_ward(seed, shards)
        assert ward.findings() == set(), seed
        published, moves = published + ward.published, moves + ward.moves
    assert published > 20 * shards * seeds
    assert moves > 5 * shards * seeds


def test_every_promise_is_kept_to_people_who_move_and_whose_values_come_and_go() -> None:
    for seed in range(300, 316):
        ward = draw_restless_ward(seed, Marking)
        assert ward.findings() == set(), seed
        assert ward.moves > 30


def draw_worlds(seeds: range, shards: int = 2) -> tuple[int, int, int]:
    """Of small tables: how many have several worlds, how many are not as likely as promised, how many people moved."""
    counted = broken = moves = 0
    for seed in seeds:
        ward = Ward(hamlet(shards)).live(draw_hamlet(random.Random(seed), shards=shards))
        worlds = ward.worlds
        assert worlds is not None
        counted += worlds.worlds > 1
        broken += not worlds.is_kept(Fraction(1, 2))
        moves += ward.moves
    return counted, broken, moves


def _cut_early(patch: pytest.MonkeyPatch, shards: int) -> None:
    """Five shards need more people than a small table has, and sixteen far more."""
    if shards > 2:
        patch.setattr("shoal.core.cuts.people_needed", lambda policy: 16)


@pytest.mark.parametrize(("shards", "seeds"), [(2, 20), (5, 12), (16, 10)])
def test_all_worlds_of_small_tables_are_as_likely_as_promised(
    monkeypatch: pytest.MonkeyPatch, shards: int, seeds: int
) -> None:
    """With up to twenty people the auditor counts every world: every spell is each value of its signature."""
    _cut_early(monkeypatch, shards)
    counted, broken, moves = draw_worlds(range(seeds), shards)
    assert broken == 0
    assert counted > seeds // 2
    assert moves > 6 * seeds


@pytest.mark.parametrize("insiders", [0, 1])
def test_nobody_of_a_small_table_learns_more_than_promised_where_people_move_between_shards(
    monkeypatch: pytest.MonkeyPatch, insiders: int
) -> None:
    """The auditor counts all worlds, and those of every insider; an entry that moves gets a group like it had again."""
    monkeypatch.setattr("shoal.core.cuts.people_needed", lambda policy: 8)
    again = counted = 0
    for seed in range(24):
        policy = replace(narrow_policy(4 + insiders, insiders=insiders), shards=2, k=1)
        ward = Ward(policy).live(_draw_movers(random.Random(seed), 4 + insiders))
        assert ward.findings() == set(), seed
        worlds = ward.worlds
        assert worlds is None or worlds.is_kept(Fraction(1, 2)), seed
        counted += worlds is not None and worlds.worlds > 1
        again += sum(count > 1 for count in _groups_of_entries(ward).values())
    assert counted > 5
    assert again > 2, "some entries are shown in two shards"


def _draw_movers(draw: random.Random, values: int) -> Iterator[dict[str, Any]]:
    """A few people, of whom one or two move to the other end in every release, where all newcomers are."""
    there: dict[str, int] = {}
    for release in range(3):
        end = 90 if release % 2 else 0
        others = [person for person, age in sorted(there.items()) if abs(age - end) > 50]
        for person in draw.sample(others, min(len(others), draw.choice([1, 2]))):
            there[person] = end + draw.randrange(10)
            yield {"op": "update", "id": person, "qid": {"age": there[person]}}
        first = draw.randrange(values)
        for number in range(2 * values if release == 0 else values):
            person = f"p{release}-{number}"
            age = there[person] = (90 * (number // values) if release == 0 else end) + draw.randrange(10)
            value = f"d{(first + number) % values}"
            yield {"op": "insert", "id": person, "qid": {"age": age}, "sensitive": [value]}
        yield {"op": "release"}


def _groups_of_entries(ward: Ward) -> Counter[tuple[str, str]]:
    """In how many groups each value of each person was shown under a signature."""
    shown = set()
    for made in ward.made:
        sizes = {group["group"]: len(group["sensitive"]) for group in map(json.loads, made.groups)}
        for part in made.parts:
            for row in map(json.loads, part.members.lines()):
                if sizes.get(row["group"], 0) > 1:
                    shown.add((row["id"], row["value"], row["group"]))
    return Counter((person, value) for person, value, _ in shown)


@pytest.mark.parametrize("shards", [2, 5, 16])
def test_the_worlds_of_people_who_get_new_signatures_where_they_go_are_not(
    monkeypatch: pytest.MonkeyPatch, shards: int
) -> None:
    _cut_early(monkeypatch, shards)
    _give_movers_new_signatures(monkeypatch)
    assert draw_worlds(range(12), shards)[1] > 2


@pytest.mark.slow
@pytest.mark.parametrize(("shards", "first"), [(shards, first) for shards in (2, 5, 16) for first in (1000, 1020)])
def test_every_promise_is_kept_in_many_random_histories_of_people_who_move(shards: int, first: int) -> None:
    for seed in range(first, first + (20 if shards < 16 else 5)):
        assert draw_ward(seed, shards).findings() == set(), seed


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
        return EntryRecord(brought.value, -1, -1, brought.flags & HELD)

    patch.setattr(LastingShard, "_entry", forget)


def _receive(patch: pytest.MonkeyPatch, change: Any) -> None:
    """What somebody brings is changed on the way."""
    entry = LastingShard._entry
    patch.setattr(LastingShard, "_entry", lambda self, brought: entry(self, change(brought)))


def _forget_plain(patch: pytest.MonkeyPatch) -> None:
    """S2: what was shown of somebody plainly is not known where they go."""
    _receive(patch, lambda brought: brought if brought.signature else brought._replace(plain=NO_SIGNATURE))


def _forget_marks(patch: pytest.MonkeyPatch) -> None:
    """A value that is to be "*" for its spell, or for ever, may be shown elsewhere."""
    _receive(patch, lambda brought: brought._replace(flags=brought.flags & ~(STARRED | BARRED)))


def _forget_past(patch: pytest.MonkeyPatch) -> None:
    """S1: only what somebody holds now follows them, and what they held before has no signature any more."""
    put = Entries.put
    patch.setattr(
        Entries, "put", lambda self, row, records: put(self, row, [one for one in records if one.flags & HELD])
    )


def _think_cliques_whole(patch: pytest.MonkeyPatch) -> None:
    """Permanent values: a clique is shown of those who are left when somebody went to another shard."""

    def show_left(bonds: Bonds, site: Site, groups: Groups, number: int) -> None:
        every = dict(bonds.bonds)
        for key, bond in every.items():
            rows = zip(bond.owners, site.people.rows_of(bond.owners), strict=True)
            left = tuple(owner for owner, row in rows if row is not None and site.may_join[row])
            bonds.bonds[key] = bond._replace(owners=left or bond.owners)
        show_bonds(bonds, site, groups, number)
        for key, bond in every.items():
            bonds.bonds[key] = bond._replace(group=bonds.bonds[key].group)

    patch.setattr("shoal.core.lasting.show_bonds", show_left)


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
        (_think_cliques_whole, "G3", 300),
        (_forget_trails, "G5", 398),
        (_grow_everywhere, "G1", 300),
        (_never_move, "G1", 300),
        (_name_alike, "contract", 300),
        (_forget_erasures, "G2", 300),
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


@pytest.mark.parametrize("spoil", [_forget_past, _forget_plain])
def test_an_engine_that_forgets_what_came_and_went_elsewhere_is_found_out(
    monkeypatch: pytest.MonkeyPatch, spoil: Any
) -> None:
    monkeypatch.setattr(Table, "check_invariants", lambda self: None)
    spoil(monkeypatch)
    found = (draw_restless_ward(seed).findings() for seed in range(300, 320))
    assert any(sentence.startswith("G2") for sentences in found for sentence in sentences), "nobody noticed"


def test_an_engine_that_forgets_marks_on_the_way_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The auditor cannot see why a value is "*", so the records are looked at."""
    monkeypatch.setattr(Table, "check_invariants", lambda self: None)
    _forget_marks(monkeypatch)
    with pytest.raises(AssertionError, match="a mark was lost on the way"):
        _ = [draw_restless_ward(seed, Marking) for seed in range(300, 320)]


LABELS = [f"d{rank:02}" for rank in range(12)]


def _two_towns(others: list[str]) -> Ward:
    """Old people and young ones have other values; then somebody else twice shows `others` of all of them."""
    document = {
        "table": "towns",
        "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
        "sensitive": {"name": "disease", "values": LABELS},
        "privacy": {"k": 2, "l": 2, "signature": 4},
        "scale": {"shards": 2},
    }
    ward = Ward(build_policy(document, {}, b"towns"))
    ward.live([*_settle("old", ((0, LABELS[:4]), (50, LABELS[:8:2]))), {"op": "release"}])
    external = {"region": {"age": {"min": 0, "max": 99}}, "sensitive": dict.fromkeys(others, 1)}
    ward.live([{"op": "external", "publisher": "other", "groups": [external, external]}, {"op": "release"}])
    return ward.live([*_settle("new", ((0, LABELS), (50, LABELS))), {"op": "release"}])


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


@pytest.mark.parametrize(
    ("others", "shown"),
    [
        (LABELS[8:], {("d00", "d01", "d02", "d03"), ("d00", "d02", "d04", "d06"), ("*",)}),
        (LABELS, {("*",)}),
    ],
    ids=["of other values, what was shown stays", "of the same values, nothing stays"],
)
def test_beside_another_publication_a_shard_that_knows_only_its_own_people_shows_nothing_new(
    others: list[str], shown: set[tuple[str, ...]]
) -> None:
    ward = _two_towns(others)
    assert ward.findings() == set()
    assert len({json.loads(line)["id"] for part in ward.made[-1].parts for line in part.members.lines()}) == 160
    assert {tuple(json.loads(group)["sensitive"]) for group in ward.made[-1].groups} == shown


def _reckon_alone(patch: pytest.MonkeyPatch) -> None:
    """Other publishers: a shard takes its own people for everybody."""
    of = Neighbours.of
    patch.setattr(Neighbours, "of", lambda policy, *others: of(replace(policy, shards=1), *others))


def _show_new(patch: pytest.MonkeyPatch) -> None:
    """Other publishers: a shard shows something new of people inside."""
    beside = Neighbours.beside
    patch.setattr(Neighbours, "beside", lambda self, row: beside(self, row)._replace(may_be_new=True))


@pytest.mark.parametrize(("spoil", "others"), [(_reckon_alone, LABELS), (_show_new, ["*"])])
def test_a_shard_that_shows_something_new_beside_another_publication_is_found_out(
    monkeypatch: pytest.MonkeyPatch, spoil: Any, others: list[str]
) -> None:
    assert _two_towns(others).findings() == set()
    spoil(monkeypatch)
    assert {sentence.partition(":")[0] for sentence in _two_towns(others).findings()} == {"G5"}


class Reaching(Ward):
    """Publishes a group of shard 1 with rows of its own that it says are in a cell of shard 0."""

    def plan(self, window: Window, changed: Policy | None = None) -> TablePlan:
        made = super().plan(window, changed)
        home, other = made.parts[:2]
        if not home.cells or not other.groups:
            return made
        cell, group = json.loads(home.cells[0])["cell"], json.loads(other.groups[0])
        group["cells"] = {cell: sum(group["cells"].values())}
        reaching = replace(other, groups=(json.dumps(group, separators=(",", ":")).encode(), *other.groups[1:]))
        return replace(made, parts=(home, reaching, *made.parts[2:]))


def test_a_group_that_reaches_across_shards_is_found_out() -> None:
    draw = random.Random(300)
    policy = replace(draw_policy(draw), shards=2)
    ward = Reaching(policy).live(draw_moving(draw, policy, people_needed(policy) * 2, 3))
    assert "G1: a group has rows in another shard" in ward.findings()
