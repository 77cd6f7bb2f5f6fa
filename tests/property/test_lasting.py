"""Random histories of lasting tables through the engine and the auditor, which counts all worlds of small ones.

Every rule has a wrong engine that breaks it, and the auditor finds it out.
"""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.core.events.intake import Intake
from shoal.core.overlap.external import External, parse_external
from shoal.core.plan import Window, plan
from shoal.core.signatures.blocks import NOWHERE
from shoal.core.signatures.entries import HELD, NO_GROUP, NO_SIGNATURE, STARRED, Entries
from shoal.core.signatures.judging import Judging
from shoal.core.signatures.rounds import Rounds
from shoal.core.signatures.settling import Settling
from shoal.core.signatures.verdict import FREE, UNLIMITED, Judge
from shoal.core.state import RECORDS, State
from tests.support.engines.audited import Bench, sentences
from tests.support.histories.mixed import (
    draw_events,
    draw_narrow,
    draw_policy,
    draw_restless,
    narrow_policy,
    transient_labels,
)

SMALL, LARGE = (6, 8, 12), (30, 60)


def audit_history(
    path: Path, seed: int, sizes: tuple[int, ...] = SMALL + LARGE, draw_events: Any = draw_events
) -> set[str]:
    """What the auditor finds in one random history."""
    draw = random.Random(seed)
    policy = draw_policy(draw)
    while draw_events is draw_restless and len(transient_labels(policy)) < 5:
        policy = draw_policy(draw)
    people, releases = draw.choice(sizes), draw.choice([3, 4, 6])
    folder = path / str(seed)
    folder.mkdir()
    return sentences(Bench(folder, policy).replay_events(draw_events(draw, policy, people, releases)).audit())


@pytest.mark.parametrize("first", range(0, 48, 8))
def test_every_promise_is_kept_in_random_histories(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 8):
        assert audit_history(tmp_path, seed) == set(), seed


@pytest.mark.parametrize("first", range(0, 16, 8))
def test_every_promise_is_kept_where_values_change_all_the_time(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 8):
        assert audit_history(tmp_path, seed, LARGE, draw_restless) == set(), seed


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1120, 20))
def test_every_promise_is_kept_in_many_random_histories(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 20):
        assert audit_history(tmp_path, seed) == set(), seed


@pytest.mark.parametrize("seed", [*range(300, 311), 415])
def test_a_restart_in_any_order_gives_the_same_bytes(seed: int) -> None:
    draw = random.Random(seed)
    policy = draw_policy(draw)
    state, intake = State.empty(policy, b"secret"), Intake(policy, {}, held={})
    externals: list[Any] = []
    for event in draw_events(draw, policy, draw.choice(LARGE), 4):
        if event["op"] == "external":
            read = parse_external(event, policy)
            assert isinstance(read, External)
            externals = list(read.groups)
        elif event["op"] == "release":
            cut, number = intake.cut(), state.meta.release + 1
            made = plan(state, Window(None, {0: cut}, externals), policy, number)
            shuffled = {name: draw.sample(found, len(found)) for name, found in _records(state).items()}
            twin = State.load(policy, b"secret", state.meta, **shuffled)
            window = dict(draw.sample(list(cut.items()), len(cut)))
            assert plan(twin, Window(None, {0: window}, externals), policy, number).release.manifest == (
                made.release.manifest
            )
            stored = State.load(policy, b"secret", state.meta, **_records(state))
            stored.apply(replace(made.change, after=None))  # by its records, as Redis does
            state.apply(made.change)
            assert _records(stored) == _records(state)
            twin.apply(plan(twin, Window(None, {0: window}, externals), policy, number).change)
            assert _records(twin) == _records(state)
            externals = []
        else:
            assert intake.take(event) is None


def _records(state: State) -> dict[str, list[Any]]:
    return {name: sorted(state.records(name)) for name in RECORDS}


def _forget_signatures(patch: pytest.MonkeyPatch) -> None:
    """S1: a value that comes back is a newcomer."""
    hold = Entries.hold

    def forget(self: Entries, *arguments: Any) -> Any:
        ended = hold(self, *arguments)
        self.flags[ended], self.signature[ended], self.home[ended] = 0, NO_SIGNATURE, NO_GROUP
        return ended

    patch.setattr(Entries, "hold", forget)


def _forget_homes(patch: pytest.MonkeyPatch) -> None:
    """S1: a value that comes back is shown in a new group of its signature."""
    part = Settling.part

    def forget(self: Settling, scene: Any) -> None:
        part(self, scene)
        self.entries.home[self.entries.group == NO_GROUP] = NO_GROUP

    patch.setattr(Settling, "part", forget)


def _let_signatures_meet(patch: pytest.MonkeyPatch) -> None:
    """S2: a new signature may hold values of the person's others."""
    shuns = Rounds.shuns
    patch.setattr(Rounds, "shuns", lambda self, one: shuns(self, one) if self._siblings.get(one) else 0)


def _let_values_of_one_person_meet(patch: pytest.MonkeyPatch) -> None:
    """S2: two values of a person are in one group."""
    patch.setattr(Rounds, "shuns", lambda self, one: self._shunned.get(one, 0))
    patch.setattr(Rounds, "_is_sibling", lambda self, newcomer, members: False)


def _refill(patch: pytest.MonkeyPatch) -> None:
    """S4: a newcomer takes the place of somebody with their value who left, wherever the group does not collide."""
    deal = Settling._deal

    def fill(self: Settling, shown: Any, judging: Any, neighbours: Any) -> None:
        entries, groups = self.entries, self.groups
        for entry in np.flatnonzero(shown == -1).tolist():
            mine = set(entries.group[entries.of_person(int(entries.owner[entry]))].tolist())
            known = {int(entries.signature[one]) for one in entries.of_person(int(entries.owner[entry]))}
            left = np.flatnonzero(
                (entries.value == entries.value[entry]) & (entries.group == NO_GROUP) & (entries.home > 0)
                & (entries.signature >= 0)
            )  # fmt: skip
            free = [one for one in left.tolist() if int(entries.home[one]) not in mine and known == {NO_SIGNATURE}]
            if free and groups.kind[entries.home[free[0]]] >= 0:
                home = entries.home[free[0]]
                entries.settle(np.array([entry]), int(groups.kind[home]), np.array([home]))
                shown[entry] = -9
        deal(self, shown, judging, neighbours)

    patch.setattr(Settling, "_deal", fill)


def _show_true_counts(patch: pytest.MonkeyPatch) -> None:
    """S4: a group shows how often its values occur, not each of them equally often."""
    from shoal.core.lasting import _describe

    def tell(*arguments: Any) -> Any:
        for shown in _describe(*arguments):
            (node, count), *rest = shown.shown
            is_told = shown.spare > 0  # only a signature has any
            yield shown._replace(shown=((node, count - is_told), *rest), spare=shown.spare - is_told)

    patch.setattr("shoal.core.lasting._describe", tell)


def _show_any_number(patch: pytest.MonkeyPatch) -> None:
    """S3: nothing stops a third value under one signature."""

    def allow(self: Judge, shown: Any, plain: Any, is_empty: bool) -> int:
        return UNLIMITED

    patch.setattr(Judge, "_safe_number", allow)
    patch.setattr(Judging, "_most_unseen", lambda self, person, signature, people: np.full(people, UNLIMITED))


def _star_only_what_is_full(patch: pytest.MonkeyPatch) -> None:
    """S3, all or nothing: while a signature is full, only its own values are "*"."""
    find = Judging._find_seconds
    patch.setattr(Judging, "_most_unseen", lambda self, person, signature, people: np.full(people, UNLIMITED))

    def star(self: Judging, some: Any, person: Any, owner: Any, signature: Any, shown: Any) -> None:
        find(self, some, person, owner, signature, shown)
        for entry in some[shown[some] >= 0].tolist():
            mine = self._entries.of_person(int(self._entries.owner[entry]))
            values = {int(self._entries.value[one]) for one in mine if self._entries.signature[one] == shown[entry]}
            if len(values) >= self._judge.most_under(int(shown[entry])):
                shown[entry] = -3

    patch.setattr(Judging, "_find_seconds", star)


def _show_what_was_starred(patch: pytest.MonkeyPatch) -> None:
    """Dealing: who found no round tries again."""
    star = Settling._star

    def forget(self: Settling, some: Any, shown: Any, reason: int = 0) -> None:
        star(self, some, shown, reason)
        self.entries.flags[some] &= ~np.uint8(STARRED)

    patch.setattr(Settling, "_star", forget)


def _wait_for_values(patch: pytest.MonkeyPatch) -> None:
    """Waiting: newcomers wait until there are others whose values go with theirs, and not for so many of them."""
    _show_what_was_starred(patch)

    def count(self: Settling, some: Any, shown: Any, reason: int = 0) -> None:
        shown[some] = -1  # which goes on waiting

    patch.setattr(Settling, "_star", count)


def _star_alone(patch: pytest.MonkeyPatch) -> None:
    """Cover: what finds no round is "*" without others."""
    patch.setattr("shoal.core.signatures.settling.cover", lambda dealings, l, draws: True)
    patch.setattr("shoal.core.signatures.surplus._company", lambda counts, rounds, l: 0)


def _protect_open_values(patch: pytest.MonkeyPatch) -> None:
    """Open values: they are put into signatures with others."""
    check = Judge.__post_init__

    def widen(self: Judge) -> None:
        check(self)
        self.transient = self.transient | self.policy.sensitive.open

    patch.setattr(Judge, "__post_init__", widen)
    patch.setattr(Judge, "_is_open", lambda self, value: False)
    at_once = Judging._judge_at_once

    def hide(self: Judging, asked: Any, shown: Any) -> None:
        at_once(self, asked, shown)
        is_new = (shown[asked] == -2) & (self._entries.signature[asked] == NO_SIGNATURE)
        shown[asked[is_new & ~self._entries.has(STARRED)[asked]]] = -1

    patch.setattr(Judging, "_judge_at_once", hide)


def _forget_what_was_plain(patch: pytest.MonkeyPatch) -> None:
    """Plain values: one that was shown plainly is shown under a signature later."""
    settle = Entries.settle

    def forget(self: Entries, entries: Any, signatures: Any, groups: Any) -> None:
        settle(self, entries, signatures, groups)
        plain = entries[self.signature[entries] < 0]
        self.signature[plain], self.home[plain] = NO_SIGNATURE, NO_GROUP

    patch.setattr(Entries, "settle", forget)


def _ignore_guards(patch: pytest.MonkeyPatch) -> None:
    """Guards: nobody has one."""
    patch.setattr("shoal.core.signatures.verdict.Judge._guarded", lambda self, guard: frozenset())


def _ignore_others(patch: pytest.MonkeyPatch) -> None:
    """Other publishers: what they show is not looked at."""
    patch.setattr("shoal.core.signatures.blocks.Neighbours.beside", lambda self, row: FREE)
    patch.setattr("shoal.core.signatures.blocks.Neighbours.sets", lambda self, rows: np.full(len(rows), NOWHERE))
    patch.setattr("shoal.core.signatures.blocks.Neighbours.judge_signatures", lambda self: None)


def _keep_what_is_told_apart(patch: pytest.MonkeyPatch) -> None:
    """Other publishers: what is shown stays, whatever they publish later."""
    patch.setattr("shoal.core.signatures.blocks.Neighbours.judge_signatures", lambda self: None)


def _bind_anybody_again(patch: pytest.MonkeyPatch) -> None:
    """Permanent values: somebody is in two cliques of one value."""
    patch.setattr("shoal.core.signatures.bonds._nearest", lambda near, is_taken, place, count: list(range(count)))


def _bind_without_insiders(patch: pytest.MonkeyPatch) -> None:
    """Insiders: a clique is l people."""
    from shoal.core.signatures.bonds import make_bonds

    patch.setattr("shoal.core.lasting.make_bonds", lambda bonds, site, values, size: make_bonds(bonds, site, values, 2))


def _reckon_without_insiders(patch: pytest.MonkeyPatch) -> None:
    """Insiders: as many values under a signature as if nobody knew any of them."""
    from shoal.core.signatures.verdict import most_shown

    for module in ("judging", "verdict"):
        patch.setattr(f"shoal.core.signatures.{module}.most_shown", lambda m, l, insiders: most_shown(m + 1, l, 0))


def _mix_kinds(patch: pytest.MonkeyPatch) -> None:
    """Permanent values: a signature holds them beside others."""
    check, start = Judge.__post_init__, Settling.__init__

    def mix(self: Judge) -> None:
        check(self)
        self.transient, self.permanent = self.transient | self.permanent, frozenset()

    def start_mixed(self: Settling, *arguments: Any) -> None:
        start(self, *arguments)
        self.bound_values, self._is_permanent = frozenset(), np.zeros_like(self._is_permanent)

    patch.setattr(Judge, "__post_init__", mix)
    patch.setattr(Settling, "__init__", start_mixed)


def _open_all_cells(patch: pytest.MonkeyPatch) -> None:
    """k: cells under k people are published."""
    from shoal.core.draft import Draft

    start = Draft.__init__

    def loosen(self: Draft, state: Any, policy: Any, number: int) -> None:
        start(self, state, replace(policy, k=1), number)

    patch.setattr(Draft, "__init__", loosen)


def _forget_erased_signatures(patch: pytest.MonkeyPatch) -> None:
    """Erasure: nothing at all is left of somebody."""

    def forget(self: Entries, rows: Any, open_values: Any) -> None:
        _, mine = self.of(rows)
        past = mine[~self.has(HELD)[mine]]
        self.flags[past], self.signature[past] = 0, NO_SIGNATURE
        self.group[past] = self.home[past] = NO_GROUP

    patch.setattr(Entries, "erase", forget)


def _lend_values_to_the_erased(patch: pytest.MonkeyPatch) -> None:
    """Erasure: what is left names the first values of a signature, as if they had been the person's."""
    erase = Entries.erase

    def lend(self: Entries, rows: Any, open_values: Any) -> None:
        erase(self, rows, open_values)
        left = np.flatnonzero((self.value < 0) & (self.signature >= 0))
        self.value[left] = self.signature[left] * 0

    patch.setattr(Entries, "erase", lend)


def audit_narrow(path: Path, seed: int, values: int = 4, **privacy: int) -> set[str]:
    """What the auditor finds in one random history of a table with few values."""
    policy, draw = narrow_policy(values, **privacy), random.Random(seed)
    folder = path / str(seed)
    folder.mkdir()
    return sentences(Bench(folder, policy).replay_events(draw_narrow(draw, policy, 30, 5)).audit())


NARROW = ((4, 0, 0), (5, 0, 1), (9, 0, 0), (13, 6, 0), (12, 5, 1))


@pytest.mark.parametrize(("values", "permanent", "insiders"), NARROW)
def test_every_promise_is_kept_where_values_are_few_and_come_and_go(
    tmp_path: Path, values: int, permanent: int, insiders: int
) -> None:
    for seed in range(3):
        assert audit_narrow(tmp_path, seed, values, permanent=permanent, insiders=insiders) == set(), seed


MET = "G2: S2: two signatures of a person have some values in common, and are not equal"
OTHER = "G2: S1: a value of a person is shown in another group than before"
FULL = "G2: S3: a value is shown for the first time for somebody who could get one that could only be suppressed"
TOO_MANY = "G2: S3: more values of a person are shown under one signature than it may hide"


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (_forget_signatures, OTHER),
        (_let_signatures_meet, MET),
        (_let_values_of_one_person_meet, "G2: S2: a person has two entries in one group"),
        (_refill, "G2: S4: somebody joined a group after it was formed"),
        (_show_true_counts, "G2: S4: a group does not show each value of its signature equally often"),
        (_show_what_was_starred, "G2: more values that were suppressed are shown later than were waiting"),
        (_wait_for_values, "G2: a batch of newcomers is full and goes on waiting, though groups were formed"),
        (_star_alone, "G2: of the values that were suppressed together more than 1/l are one value"),
        (_protect_open_values, "G2: a signature holds an open value"),
        (_forget_what_was_plain, "G2: a value that was shown plainly is shown under a signature"),
        (_ignore_guards, "G4: "),
        (_ignore_others, "G5: "),
        (_keep_what_is_told_apart, "G5: a value is still shown that another publication has left with too few like it"),
        (_bind_anybody_again, "G3: a person is in two cliques of one value"),
        (_bind_without_insiders, "G3: a clique's group does not show its value once for at least l + insiders rows"),
        (_open_all_cells, "G1: "),
    ],
)
def test_an_engine_without_a_rule_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Any, expected: str
) -> None:
    spoil(monkeypatch)
    monkeypatch.setattr(Entries, "check_invariants", lambda *arguments: None)  # the auditor is to find it
    for seed in range(200, 230):
        found = audit_history(tmp_path, seed, LARGE, draw_restless if seed % 2 else draw_events)
        if any(sentence.startswith(expected) for sentence in found):
            return
    pytest.fail("nobody noticed")


@pytest.mark.parametrize(
    ("spoil", "expected", "narrow"),
    [
        (_forget_homes, OTHER, {}),
        (_forget_erased_signatures, TOO_MANY, {}),
        (_lend_values_to_the_erased, "contract: a value of a person has two rows", {}),
        (_show_any_number, TOO_MANY, {}),
        (_star_only_what_is_full, FULL, {"values": 9}),
        (_reckon_without_insiders, TOO_MANY, {"values": 5, "insiders": 1}),
        (_mix_kinds, "G2: a signature holds permanent values and others", {"values": 13, "permanent": 6}),
    ],
)
def test_an_engine_without_a_rule_about_second_values_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Any, expected: str, narrow: dict[str, int]
) -> None:
    spoil(monkeypatch)
    monkeypatch.setattr(Entries, "check_invariants", lambda *arguments: None)
    found = (audit_narrow(tmp_path, seed, **narrow) for seed in range(8))
    assert any(sentence.startswith(expected) for sentences in found for sentence in sentences), "nobody noticed"
