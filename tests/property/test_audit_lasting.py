"""The auditor on random lasting tables: a right publisher keeps everything, and junk anywhere is said and survived."""

import json
from random import Random
from typing import Any

import pytest

from shoal.core.audit import Auditor, Stored, Truth, write_report
from shoal.core.audit.reading.view import Line
from tests.property.test_audit import spoil
from tests.support.engines.lasting import Publisher
from tests.support.engines.lasting_desk import LastingDesk, lasting_policy
from tests.support.histories.lasting_life import live


class Recorder(Auditor):
    """Keeps what it is shown, besides auditing it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.seen: list[tuple[Stored, Any, Any]] = []

    def see(self, stored: Stored, members: Any = None, truth: Any = None, at: Any = None, cohorts: Any = None) -> None:
        self.seen.append((stored, members, cohorts))
        super().see(stored, members, truth, at, cohorts)


def publish(seed: int, releases: int = 6) -> Publisher:
    """A series under a random policy."""
    rng = Random(seed)
    l, insiders = rng.choice([(2, 0), (2, 1), (2.5, 0), (3, 2), (4, 0)])
    privacy = {"batch": 8, "insiders": insiders, "overlap": rng.choice([2, 3])}
    policy = lasting_policy(k=rng.choice([1, 2, 5]), l=l, **privacy)
    publisher = Publisher(policy)
    publisher.desk.auditor = Recorder(policy)
    for number in range(releases):
        live(publisher, rng, people=rng.choice([20, 60, 150]), change=rng.choice([0.05, 0.4]))
        if rng.random() < 0.2 and number:
            values = rng.sample(["asthma", "copd", "ulcer", "gastritis", "gout", "lupus", "flu"], rng.choice([1, 4]))
            low, high = sorted((rng.randrange(100), rng.randrange(100)))
            publisher.tell_others(low, high, dict.fromkeys(values, 1))
        publisher.release()
    return publisher


@pytest.mark.parametrize("seed", range(60))
def test_a_right_publisher_keeps_every_promise_under_any_policy(seed: int) -> None:
    publisher = publish(seed)
    assert publisher.desk.found() == set()
    report = publisher.desk.auditor.report(b"key")
    assert report.private is not None
    assert report.private.max_breach >= publisher.max_breach, "the report counts what a guard hid from the manifest"


@pytest.mark.parametrize("seed", range(60))
def test_whatever_is_in_a_lasting_release_the_auditor_says_so_and_goes_on(seed: int) -> None:
    rng, publisher = Random(seed), Publisher(lasting_policy(k=1))
    publisher.desk.auditor = recorder = Recorder(publisher.policy)
    truths = []
    for _ in range(2):
        live(publisher, rng, people=30)
        publisher.release()
        truths.append(dict(publisher.desk.truth.present))
    spoilt, truth, was_spoilt = Auditor(publisher.policy), Truth(publisher.policy), False
    for (stored, members, cohorts), present in zip(recorder.seen, truths, strict=True):
        truth.present, truth.since = present, publisher.desk.truth.since
        truth.held = publisher.desk.truth.held
        cells, groups = ([json.loads(line) for line in text.splitlines()] for text in (stored.cells, stored.groups))
        manifest, people = json.loads(stored.manifest), [list(member) for member in members]
        before = json.dumps([cells, groups, manifest, people])
        for target in rng.choices([manifest, *cells, *groups, *groups], k=2):
            spoil(rng, target)
        if rng.random() < 0.5:
            rng.choice(people)[rng.randrange(4)] = rng.choice(["p1", "g1", "c1", "asthma", "junk"])
        was_spoilt |= before != json.dumps([cells, groups, manifest, people])
        texts = [b"".join(json.dumps(record).encode() + b"\n" for record in records) for records in (cells, groups)]
        lines = [Line(*member) for member in people]
        again = Stored(stored.number, texts[0], texts[1], json.dumps(manifest).encode())
        spoilt.see(again, lines, truth, None, cohorts)
    report = spoilt.report(b"key")
    assert list(write_report(report))
    assert json.dumps(report.as_json())
    assert (len(spoilt.findings) > 0) == was_spoilt
    assert publisher.desk.found() == set()


def test_a_desk_that_publishes_nothing_breaks_nothing() -> None:
    """The twin of junk: an empty table, and releases in which everyone is withheld."""
    desk = LastingDesk(lasting_policy(k=5), {})
    desk.publish({})
    desk.tell({"op": "insert", "id": "p1", "qid": {"age": 3}, "sensitive": "asthma"})
    desk.publish({})
    assert desk.found() == set()
