"""Counts with intervals on random releases of both models: the truth about what was published is never outside.

The known-bad twin takes values without a row for people's values, and is found out.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shoal.core.measure.count import Answers, Count
from shoal.core.measure.entries import Sides
from shoal.core.measure.question import Question, read_question
from shoal.core.measure.release_reader import ReleaseColumns, read_columns
from shoal.core.policy.policy import Policy
from shoal.streams.files.release_folder import read_files
from shoal.streams.files.true_tables import tables_at_releases
from tests.support.engines.audited import Bench
from tests.support.engines.series import DISEASES, clinic_policy, crowd
from tests.support.histories.mixed import draw_events, draw_policy

_QUESTIONS = 25


class Published(NamedTuple):
    """A release and the truth: codes of (attributes, value) of every published value, and of the attributes of every
    published person.
    """

    columns: ReleaseColumns
    true_values: list[tuple[tuple[Any, ...], int]]
    true_people: list[tuple[Any, ...]]


def lasting(path: Path, draw: random.Random) -> Iterator[Published]:
    policy = draw_policy(draw)
    bench = Bench(path, policy)
    bench.replay_events(draw_events(draw, policy, draw.choice([12, 30, 60]), 4))
    return published(bench)


def redrawn(path: Path, draw: random.Random) -> Iterator[Published]:
    permanent = draw.choice([[], ["hiv"], ["hiv", "lupus"]])
    policy = clinic_policy(k=draw.choice([2, 3]), l=2, open=draw.choice([[], ["flu", "cold"]]), permanent=permanent)
    tables = [
        crowd(
            draw.choice([20, 60]), draw.randrange(1000), diseases=lambda rng: rng.sample(DISEASES, rng.choice([1, 3]))
        )
        for _ in range(2)
    ]
    return published(Bench(path, policy).replay(tables))


MODELS = {"lasting": lasting, "redrawn": redrawn}


def published(bench: Bench) -> Iterator[Published]:
    code_of = bench.policy.sensitive.hierarchy.leaf_code
    for found in tables_at_releases(bench.policy, bench.events.read_bytes().splitlines()):
        if found.number is None:
            return
        files = read_files(bench.out, found.number)
        lines = (bench.private / f"release-{found.number:04}.members.jsonl").read_bytes().splitlines()
        members = [json.loads(line) for line in lines]
        codes = {member["id"]: tuple(found.table[member["id"]].qid) for member in members}
        if bench.policy.values == "lasting":
            values = [(codes[row["id"]], code_of[row["value"]]) for row in members if row["value"] is not None]
        else:
            values = [(codes[person], value) for person in codes for value in found.table[person].values]
        yield Published(read_columns(bench.policy, files.records), values, list(codes.values()))


def ask(draw: random.Random, policy: Policy) -> dict[str, object]:
    """A random question about some attributes and some values, wide ones among them."""
    where: dict[str, object] = {}
    for attribute in draw.sample(policy.attributes, draw.choice([0, 0, 1, 1, 2])):
        if attribute.hierarchy is not None:
            where[attribute.name] = draw.sample(attribute.hierarchy.labels, draw.choice([1, 2]))
            continue
        ends = sorted(draw.choice([attribute.low, attribute.high, draw.uniform(0, attribute.high)]) for _ in range(2))
        where[attribute.name] = tuple(map(round, ends)) if attribute.kind == "int" else tuple(ends)
    labels = policy.sensitive.hierarchy.labels
    where[policy.sensitive.name] = draw.sample(labels, draw.choice([1, 1, 2, 4]))
    return where


def is_inside(question: Question, codes: tuple[Any, ...]) -> bool:
    return all(any(run.low <= codes[position] < run.high for run in runs) for position, runs in question.conditions)


def true_count(found: Published, question: Question) -> int:
    """The answer, counted one by one."""
    wanted = question.values or ()
    return sum(
        is_inside(question, codes) and any(run.low <= value < run.high for run in wanted)
        for codes, value in found.true_values
    )


class Blind(Answers):
    """Takes every place that a group shows for somebody's."""

    @property
    def sides(self) -> Sides:
        found = super().sides
        return found._replace(real=found.shown)


def answers(path: Path, model: str, seed: int, *, is_blind: bool = False) -> Iterator[tuple[Count, int]]:
    """Counts of random releases and the truth; `is_blind` takes values without a row for people's."""
    draw = random.Random(seed)
    for found in MODELS[model](path, draw):
        policy, asked = found.columns.policy, (Blind if is_blind else Answers)(found.columns)
        for _ in range(_QUESTIONS):
            question = read_question(policy, ask(draw, policy))
            yield asked.count(question), true_count(found, question)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", range(12))
def test_the_truth_is_in_the_interval_and_so_is_the_estimate(tmp_path: Path, model: str, seed: int) -> None:
    for count, truth in answers(tmp_path, model, seed):
        assert count.low <= truth <= count.high
        assert count.low <= count.likely[0] <= count.estimate <= count.likely[1] <= count.high


def test_intervals_say_something(tmp_path: Path) -> None:
    """Without this, an interval from 0 to everybody would do."""
    for model in MODELS:
        found: list[tuple[Count, int]] = []
        for seed in range(6):
            (tmp_path / f"{model}-{seed}").mkdir()
            found += answers(tmp_path / f"{model}-{seed}", model, seed)
        assert sum(count.low > 0 for count, _ in found) > len(found) / 10, model
        assert any(count.high <= 2 * count.low for count, _ in found if count.low), model
        assert any(count.low < count.high for count, _ in found), model


def test_a_count_that_takes_spare_values_for_peoples_is_found_out(tmp_path: Path) -> None:
    wrong = 0
    for seed in range(12):
        (tmp_path / str(seed)).mkdir()
        counts = answers(tmp_path / str(seed), "lasting", seed, is_blind=True)
        wrong += sum(not count.low <= truth <= count.high for count, truth in counts)
    assert wrong > 0


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", range(4))
def test_people_are_counted_once_each(tmp_path: Path, model: str, seed: int) -> None:
    draw = random.Random(seed)
    for found in MODELS[model](tmp_path, draw):
        policy = found.columns.policy
        asked, people = Answers(found.columns), len(found.true_people)
        assert asked.count(Question((), None)) == (people, people, people, (people, people))
        for _ in range(_QUESTIONS):
            where = {name: part for name, part in ask(draw, policy).items() if name != policy.sensitive.name}
            question = read_question(policy, where)
            count = asked.count(question)
            truth = sum(is_inside(question, codes) for codes in found.true_people)
            assert count.low <= truth <= count.high
            assert count.low <= count.likely[0] <= count.estimate <= count.likely[1] <= count.high
