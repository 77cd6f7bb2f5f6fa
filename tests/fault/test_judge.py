"""The judge under test: shown topics on which one thing is wrong, it says so. Otherwise no verdict means anything."""

import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps

import pytest

from tests.fault.scene import EVERYTHING, PATIENCE_S, Scene
from tests.support.services.table import Record, insert

Forgery = Callable[[str, list[Record]], list[Record]]


class Forged(Scene):
    """The topics of a table as somebody else would have them."""

    forgery: Forgery | None = None
    kept: dict[tuple[str, int], list[Record]] | None = None

    def read_all(self, *places: tuple[str, int]) -> list[list[Record]]:
        if self.kept is None:
            return super().read_all(*places)
        new = [place for place in places if place not in self.kept]
        self.kept.update(zip(new, super().read_all(*new), strict=True))
        found = [(place[0].rpartition(".")[2], self.kept[place]) for place in places]
        return [records if self.forgery is None else self.forgery(name, records) for name, records in found]


@pytest.fixture(scope="module")
def published(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forged]:
    """Three releases that are in order, and from then on only read."""
    folder = tmp_path_factory.mktemp("judge")
    scene = Forged(kafka, redis_url, folder, f"judge-{secrets.token_hex(4)}", **EVERYTHING)
    try:
        worker = scene.start()
        for _ in range(2):
            scene.pour(120)
            scene.ask()
            scene.await_served()
        scene.pour(60)
        scene.finish()
        assert worker.stop() == 0
        scene.kept = {}
        scene.examine()
        yield scene
    finally:
        scene.forgery = None
        scene.close()


def _of(topic: str) -> Callable[[Callable[[list[Record]], list[Record]]], Forgery]:
    def only(forge: Callable[[list[Record]], list[Record]]) -> Forgery:
        @wraps(forge)
        def forged(name: str, records: list[Record]) -> list[Record]:
            return forge(list(records)) if name == topic else records

        return forged

    return only


def _manifest(record: Record) -> bool:
    return record.headers.get("kind") == b"manifest"


@_of("events")
def an_event_was_lost(records: list[Record]) -> list[Record]:
    """There stands one of which no release knows."""
    return [*records[:5], replace(records[5], value=json.dumps(insert(77_777)).encode(), headers={}), *records[6:]]


@_of("events")
def an_event_was_applied_that_was_never_sent(records: list[Record]) -> list[Record]:
    return records[1:]


@_of("events")
def an_event_is_in_no_release(records: list[Record]) -> list[Record]:
    return [*records, replace(records[-1], offset=records[-1].offset + 1)]


@_of("external")
def anothers_table_was_not_taken_into_account(records: list[Record]) -> list[Record]:
    """There stands a table of next to nothing instead of those that the releases were made beside."""
    group = {"region": {"age": {"min": 0, "max": 0}}, "sensitive": {"flu": 1}}
    other = json.dumps({"op": "external", "publisher": "north", "groups": [group]}).encode()
    return [replace(record, value=other) if b"groups" in (record.value or b"") else record for record in records]


@_of("external")
def anothers_table_is_in_no_release(records: list[Record]) -> list[Record]:
    return [*records, replace(records[-1], offset=records[-1].offset + 1)] if records else records


@_of("dead-letter")
def a_dead_letter_was_sent_twice(records: list[Record]) -> list[Record]:
    return [*records, replace(records[3], offset=records[-1].offset + 2)]


@_of("dead-letter")
def a_dead_letter_was_not_sent(records: list[Record]) -> list[Record]:
    return records[:4] + records[5:]


@_of("dead-letter")
def a_good_event_is_a_dead_letter(records: list[Record]) -> list[Record]:
    """A place that is not among the rejected ones."""
    taken = {(letter.headers["partition"], letter.headers["offset"]) for letter in records}
    place = next(n for n in range(1000) if (b"0", b"%d" % n) not in taken)
    return [*records, replace(records[0], headers={**records[0].headers, "partition": b"0", "offset": b"%d" % place})]


@_of("dead-letter")
def a_dead_letter_is_not_the_original(records: list[Record]) -> list[Record]:
    return [replace(records[0], value=b"{}"), *records[1:]]


@_of("releases")
def a_number_has_two_contents(records: list[Record]) -> list[Record]:
    """The last release again, with another content."""
    assert records[-1].value is not None
    other = json.dumps({**json.loads(records[-1].value), "withheld": 9_999}).encode()
    return [*records, replace(records[-1], value=other)]


@_of("releases")
def a_release_was_published_twice(records: list[Record]) -> list[Record]:
    ends = [place for place, record in enumerate(records, start=1) if _manifest(record)]
    return [*records, *records[ends[-2] :]]


@_of("releases")
def a_release_is_missing(records: list[Record]) -> list[Record]:
    ends = [place for place, record in enumerate(records, start=1) if _manifest(record)]
    return records[: ends[0]] + records[ends[1] :]


@_of("releases")
def the_last_release_is_missing(records: list[Record]) -> list[Record]:
    ends = [place for place, record in enumerate(records, start=1) if _manifest(record)]
    return records[: ends[-2]]


@_of("releases")
def a_byte_of_a_group_is_another(records: list[Record]) -> list[Record]:
    place = next(place for place, record in enumerate(records) if b'"group":' in (record.value or b""))
    return [*records[:place], _changed(records[place], b'"formed":', b'"formed":1'), *records[place + 1 :]]


@_of("releases")
def a_byte_of_a_cell_is_another(records: list[Record]) -> list[Record]:
    place = next(place for place, record in enumerate(records) if b'"cell":' in (record.value or b""))
    return [*records[:place], _changed(records[place], b'"people":', b'"people":1'), *records[place + 1 :]]


@_of("releases")
def a_byte_of_a_manifest_is_another(records: list[Record]) -> list[Record]:
    return [*records[:-1], _changed(records[-1], b'"suppressed":', b'"suppressed":1')]


@_of("releases")
def a_group_is_missing(records: list[Record]) -> list[Record]:
    place = next(place for place, record in enumerate(records) if b'"group":' in (record.value or b""))
    return records[:place] + records[place + 1 :]


@_of("releases")
def a_time_was_forged(records: list[Record]) -> list[Record]:
    return [*records[:-1], replace(records[-1], headers={**records[-1].headers, "at": b"2020-01-01T00:00:00Z"})]


def _changed(record: Record, old: bytes, new: bytes) -> Record:
    assert record.value is not None
    assert old in record.value
    return replace(record, value=record.value.replace(old, new))


FORGERIES = (
    (an_event_was_lost, "not what its events come to"),
    (an_event_was_applied_that_was_never_sent, "."),
    (an_event_is_in_no_release, "events are missing from the releases"),
    (anothers_table_was_not_taken_into_account, "not what its events come to"),
    (anothers_table_is_in_no_release, "events are missing from the releases"),
    (a_dead_letter_was_sent_twice, "a dead letter was sent twice"),
    (a_dead_letter_was_not_sent, "a rejected record is not a dead letter"),
    (a_good_event_is_a_dead_letter, "a dead letter that was not rejected"),
    (a_dead_letter_is_not_the_original, "a dead letter is not the original"),
    (a_number_has_two_contents, "a gap or come twice"),
    (a_release_was_published_twice, "a gap or come twice"),
    (a_release_is_missing, "a gap or come twice"),
    (the_last_release_is_missing, "events are missing from the releases"),
    (a_byte_of_a_group_is_another, "are not its content"),
    (a_byte_of_a_cell_is_another, "are not its content"),
    (a_byte_of_a_manifest_is_another, "not what its events come to"),
    (a_group_is_missing, "are not its content"),
    (a_time_was_forged, "not what its events come to"),
)  # fmt: skip


@pytest.mark.parametrize(("forgery", "verdict"), FORGERIES, ids=lambda value: getattr(value, "__name__", ""))
def test_the_judge_notices_that(published: Forged, forgery: Forgery, verdict: str) -> None:
    published.forgery = forgery
    try:
        with pytest.raises(AssertionError, match=verdict):
            published.examine()
    finally:
        published.forgery = None


def test_a_wait_in_vain_says_where_every_worker_is(scene: Scene) -> None:
    gone, there = scene.start(), scene.start()
    gone.kill()
    there.await_log("planner.ready", PATIENCE_S)
    with pytest.raises(TimeoutError) as caught:
        scene.await_dead_letters(1, 0.5)
    said = str(caught.value)
    assert "worker-0.log: ended with -9" in said
    assert all(words in said for words in ("worker-1.log: alive", "planner.ready", "Planner._serve", "Ingest._turn"))
