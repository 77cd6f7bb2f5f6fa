"""What a worker says of itself: when it is ready, what is stuck, and which words a label may have."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from shoal.core.policy.policy import Triggers
from shoal.streams.intake.watch import BATCH_S, SILENCE_S, Course, Place, Watch
from shoal.streams.prometheus import REASONS, REGISTRY, State, word
from shoal.streams.worker.standing import Standing, due_at
from shoal.streams.worker.web import judge
from tests.support.engines.series import clinic_policy
from tests.support.judges.metrics import allowed, foreign_labels


class Clock:
    """The monotonic clock, which a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(time, "monotonic", found)
    return found


def test_a_rebalance_that_does_not_end_is_stuck(clock: Clock) -> None:
    watch = Watch(session_s=10.0)
    assert watch.course([], is_loaded=False) is Course.STARTING
    watch.run()
    assert watch.course([], is_loaded=True) is Course.RUNNING
    watch.lose()
    clock.now += 70
    assert watch.course([], is_loaded=False) is Course.REBALANCING
    watch.lose()  # again and again, and nothing is loaded in between
    clock.now += 15
    assert watch.course([], is_loaded=False) is Course.STUCK
    watch.move()
    assert watch.course([], is_loaded=False) is Course.REBALANCING
    assert watch.course([], is_loaded=True) is Course.RUNNING


def test_a_batch_that_redis_does_not_take_is_stuck(clock: Clock) -> None:
    watch = Watch(session_s=10.0)
    watch.run()
    watch.depart(3)
    clock.now += BATCH_S + 1
    assert watch.course([], is_loaded=True) is Course.STUCK
    watch.land(3)
    assert watch.course([], is_loaded=True) is Course.RUNNING


def test_a_kafka_that_answers_no_fetch_is_silent() -> None:
    watch = Watch(session_s=10.0)
    quiet = Place(lag=0, window=0, letters_s=0.0, silence_s=SILENCE_S + 1)
    assert watch.course([quiet._replace(silence_s=0.1)], is_loaded=True) is Course.RUNNING
    assert watch.course([quiet._replace(silence_s=None)], is_loaded=True) is Course.RUNNING
    assert watch.course([quiet], is_loaded=True) is Course.SILENT


def ready(course: Course, standing: Standing, *, has_redis: bool = True, has_table: bool = True) -> tuple[bool, str]:
    verdict = judge(course, standing, has_redis=has_redis, has_table=has_table)
    assert (verdict.reason is None) == (verdict.state != "stuck"), "what is stuck is explained, and nothing else"
    return verdict.is_ready, verdict.state


def test_ready_tells_a_rebalance_from_being_stuck(clock: Clock) -> None:
    standing = Standing()
    assert ready(Course.RUNNING, standing) == (True, "ready")
    assert ready(Course.REBALANCING, standing) == (True, "rebalancing")
    assert ready(Course.STARTING, standing) == (False, "starting")
    for course in (Course.STUCK, Course.SILENT):
        assert ready(course, standing) == (False, "stuck")
    assert ready(Course.RUNNING, standing, has_redis=False) == (False, "stuck")
    assert ready(Course.RUNNING, standing, has_table=False) == (False, "stuck")


def test_ready_includes_the_planner(clock: Clock) -> None:
    standing = Standing()
    clock.now += 10_000
    assert ready(Course.RUNNING, standing) == (True, "ready"), "another worker may plan for ever"
    standing.say(State.STARTING)
    assert ready(Course.RUNNING, standing) == (True, "ready")
    clock.now += 121
    assert ready(Course.RUNNING, standing) == (False, "stuck")
    standing.say(State.RETRYING, "KafkaError")
    assert ready(Course.RUNNING, standing) == (True, "ready")
    clock.now += 60
    standing.say(State.RETRYING, "KafkaError")  # the same again does not start the clock anew
    clock.now += 61
    assert ready(Course.RUNNING, standing) == (False, "stuck")
    standing.say(State.WAITING)
    clock.now += 10_000
    assert ready(Course.RUNNING, standing) == (True, "ready")
    standing.say(State.STUCK, "OverflowError")
    assert ready(Course.RUNNING, standing) == (False, "stuck")


def test_a_release_is_stuck_in_a_step_and_not_because_it_has_many(clock: Clock) -> None:
    standing = Standing()
    standing.say(State.WAITING)
    for step in ("wait", "gather", "plan"):
        standing.enter(step)
        clock.now += 600
        assert ready(Course.RUNNING, standing) == (True, "ready")
    clock.now += 400
    assert ready(Course.RUNNING, standing) == (False, "stuck")
    standing.leave()
    assert (standing.state, standing.step) == (State.WAITING, None)


def test_a_step_is_counted_when_it_is_done_and_not_when_it_is_given_up(clock: Clock) -> None:
    def counted(step: str) -> tuple[float, float]:
        labels = {"step": step}
        return tuple(
            REGISTRY.get_sample_value(f"shoal_release_step_seconds_{part}", labels) or 0.0 for part in ("count", "sum")
        )  # type: ignore[return-value]

    before = {step: counted(step) for step in ("seal", "manifest", "apply")}
    standing = Standing()
    standing.enter("seal")
    clock.now += 2
    standing.enter("manifest")
    clock.now += 3
    standing.leave()
    standing.enter("apply")
    clock.now += 5
    standing.finish()
    after = {step: tuple(now - then for now, then in zip(counted(step), before[step], strict=True)) for step in before}
    assert after == {"seal": (1, 2), "manifest": (0, 0), "apply": (1, 5)}


def test_giving_planning_up_in_the_middle_of_a_release_leaves_it_to_another() -> None:
    standing = Standing()
    standing.enter("plan")
    standing.say(State.ELSEWHERE)
    standing.leave()
    assert standing.state is State.ELSEWHERE


def test_the_next_release_is_due_when_the_first_of_the_clocks_says_so() -> None:
    last = datetime(2026, 3, 1, 2, 0, tzinfo=UTC).timestamp()
    assert due_at(clinic_policy(), last) is None
    several: list[tuple[dict[str, Any], float]] = [
        ({"every_seconds": 600}, 600),
        ({"at": "0 3 * * *"}, 3600),
        ({"at": "0 3 * * *", "every_seconds": 600}, 600),
    ]
    for clocks, after_s in several:
        triggers = Triggers(None, **{"every_seconds": None, "at": None, "timezone": "UTC"} | clocks)
        assert due_at(replace(clinic_policy(), triggers=triggers), last) == last + after_s


def test_a_manifest_shows_its_figures_and_nothing_else() -> None:
    standing = Standing()
    standing.published(b'{"release":4,"rows":12,"bound":0.5,"table":"t","loss":{"rows":1}}', 50.0, 14, clinic_policy())
    assert (standing.release, standing.people, standing.published_at) == (4, 14, 50.0)
    assert standing.figures == {"rows": 12, "bound": 0.5}


def test_a_word_that_is_not_on_the_list_becomes_other() -> None:
    assert word("bad-json", REASONS) == "bad-json"
    assert word("canary", REASONS) == "other"


def test_every_label_of_the_catalogue_has_its_list_of_words() -> None:
    labels = {name for metric in REGISTRY.collect() for sample in metric.samples for name in sample.labels}
    assert labels - {"le", "partition"} <= allowed("t").keys()


def test_the_judge_of_labels_refuses_a_page_with_a_person_in_it() -> None:
    """The known-bad twin of test_prometheus_sees_what_happened_and_nothing_about_a_person."""
    good = 'shoal_rejects_total{table="t",reason="bad-json"} 1\n'
    assert foreign_labels(good, "t") == []
    for bad in (
        'shoal_rejects_total{table="t",reason="p17"} 1\n',
        'shoal_rejects_total{table="t",person="bad-json"} 1\n',
        'shoal_rejects_total{table="other",reason="bad-json"} 1\n',
    ):
        assert len(foreign_labels(good + bad, "t")) == 1, bad
