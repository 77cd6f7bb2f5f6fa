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
from shoal.core.signatures.verdict import FREE, UNLIMITED, Beside, Judge
from shoal.core.state import RECORDS, State
from tests.support.engines.audited import Bench, sentences
from tests.support.histories.mixed import draw_events, draw_policy, draw_restless, transient_labels

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
    from shoal.core.signatures.entries import NO_SIGNATURE, Entries

    hold = Entries.hold

    def forget(self: Entries, *arguments: Any) -> Any:
        ended = hold(self, *arguments)
        self.flags[ended], self.signature[ended] = 0, NO_SIGNATURE
        return ended

    patch.setattr(Entries, "hold", forget)


def _let_signatures_meet(patch: pytest.MonkeyPatch) -> None:
    """S2: a new signature may hold values of the person's others."""
    patch.setattr("shoal.core.signatures.choice.Newcomers.fits", lambda self, position, signature: True)


def _show_true_counts(patch: pytest.MonkeyPatch) -> None:
    """S4: a group shows how often its values occur, not each of them equally often."""
    from shoal.core.lasting import _describe

    def tell(*arguments: Any) -> Any:
        for shown in _describe(*arguments):
            (node, count), *rest = shown.shown
            is_told = shown.counterfeits > 0  # only a signature has any
            yield shown._replace(shown=((node, count - is_told), *rest), counterfeits=shown.counterfeits - is_told)

    patch.setattr("shoal.core.lasting._describe", tell)


def _show_any_number(patch: pytest.MonkeyPatch) -> None:
    """S3: nothing stops a third value under one signature."""

    def allow(self: Judge, shown: Any, plain: Any, is_empty: bool, beside: Beside) -> int:
        return UNLIMITED if beside.has_every_block else 0

    patch.setattr(Judge, "_safe_number", allow)


def _protect_open_values(patch: pytest.MonkeyPatch) -> None:
    """Open values: they are put into signatures with others."""
    check = Judge.__post_init__

    def widen(self: Judge) -> None:
        check(self)
        self.transient = self.transient | self.policy.sensitive.open

    patch.setattr(Judge, "__post_init__", widen)
    patch.setattr(Judge, "_is_open", lambda self, value: False)
    patch.setattr("shoal.core.signatures.judging.Judging._judge_fresh", lambda self, fresh, shown: None)


def _forget_what_was_plain(patch: pytest.MonkeyPatch) -> None:
    """Plain values: one that was shown plainly is shown under a signature later."""
    from shoal.core.signatures.entries import NO_SIGNATURE, SHOWN, Entries

    show = Entries.show

    def forget(self: Entries, entries: Any) -> None:
        plain = entries[self.signature[entries] < 0]
        show(self, entries)
        self.signature[plain] = NO_SIGNATURE
        self.flags[plain] &= ~np.uint8(SHOWN)

    patch.setattr(Entries, "show", forget)


def _ignore_guards(patch: pytest.MonkeyPatch) -> None:
    """Guards: nobody has one."""
    patch.setattr("shoal.core.signatures.verdict.Judge._guarded", lambda self, guard: frozenset())


def _ignore_others(patch: pytest.MonkeyPatch) -> None:
    """Other publishers: what they show is not looked at."""
    patch.setattr("shoal.core.signatures.blocks.Neighbours.beside", lambda self, row: FREE)
    patch.setattr("shoal.core.signatures.blocks.Neighbours.judge_signatures", lambda self, groups: None)


def _bind_anybody_again(patch: pytest.MonkeyPatch) -> None:
    """Permanent values: somebody is in two cliques of one value."""
    patch.setattr("shoal.core.signatures.bonds._nearest", lambda near, is_taken, place, count: list(range(count)))


def _mix_kinds(patch: pytest.MonkeyPatch) -> None:
    """Permanent values: a signature holds them beside others."""
    check = Judge.__post_init__

    def mix(self: Judge) -> None:
        check(self)
        self.transient, self.permanent = self.transient | self.permanent, frozenset()

    patch.setattr(Judge, "__post_init__", mix)


def _open_all_cells(patch: pytest.MonkeyPatch) -> None:
    """k: cells under k people are published."""
    from shoal.core.draft import Draft

    start = Draft.__init__

    def loosen(self: Draft, state: Any, policy: Any, number: int) -> None:
        start(self, state, replace(policy, k=1), number)

    patch.setattr(Draft, "__init__", loosen)


def _overdraw_counterfeits(patch: pytest.MonkeyPatch) -> None:
    """Counterfeits: any number of them."""
    patch.setattr("shoal.core.signatures.balance._prune", lambda rounds, home, *_: np.ones(len(home), dtype=bool))


def _forget_erased_signatures(patch: pytest.MonkeyPatch) -> None:
    """Erasure: nothing at all is left of somebody."""
    from shoal.core.signatures.entries import HELD, NO_SIGNATURE, Entries

    def forget(self: Entries, rows: Any, open_values: Any) -> None:
        _, mine = self.of(rows)
        past = mine[~self.has(HELD)[mine]]
        self.flags[past], self.signature[past], self.spells[past] = 0, NO_SIGNATURE, 0

    patch.setattr(Entries, "erase", forget)


def _lend_values_to_the_erased(patch: pytest.MonkeyPatch) -> None:
    """Erasure: what is left names the first values of a signature, as if they had been the person's."""
    from shoal.core.signatures.entries import Entries

    erase = Entries.erase

    def lend(self: Entries, rows: Any, open_values: Any) -> None:
        erase(self, rows, open_values)
        left = np.flatnonzero((self.value < 0) & (self.signature >= 0))
        self.value[left] = self.signature[left] * 0

    patch.setattr(Entries, "erase", lend)


@pytest.mark.parametrize(
    "spoil",
    [
        _forget_signatures,
        _forget_erased_signatures,
        _lend_values_to_the_erased,
        _let_signatures_meet,
        _show_any_number,
        _show_true_counts,
        _protect_open_values,
        _forget_what_was_plain,
        _ignore_guards,
        _ignore_others,
        _bind_anybody_again,
        _mix_kinds,
        _open_all_cells,
        _overdraw_counterfeits,
    ],
)
def test_an_engine_without_a_rule_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Any) -> None:
    spoil(monkeypatch)
    for seed in range(200, 300):
        try:
            if audit_history(tmp_path, seed, LARGE, draw_restless if seed % 2 else draw_events):
                return
        except AssertionError:
            return  # the engine's own invariants found it
    pytest.fail("nobody noticed")
