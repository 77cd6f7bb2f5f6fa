"""CloudEvents: each header by name, and an id that depends on nothing but the place."""

import pytest

from shoal.streams.kafka.cloud_event import dead_letter_event, release_event
from shoal.streams.kafka.manifest import Origin, manifest_headers, read_origin, write_origin


def test_a_release_is_an_event_with_a_name_that_stays() -> None:
    assert dict(release_event("ward", 7, "2024-03-04T03:00:00Z")) == {
        "ce_specversion": b"1.0",
        "ce_type": b"shoal.release.v1",
        "ce_source": b"/shoal/ward",
        "ce_id": b"ward/7",
        "ce_time": b"2024-03-04T03:00:00Z",
        "content-type": b"application/json",
    }


@pytest.mark.parametrize("at", [None, "2024-03-04", "2024-03-04T03:00:00", "20240304T030000Z"])
def test_a_time_that_no_cloud_event_may_have_is_left_out(at: str | None) -> None:
    assert "ce_time" not in dict(release_event("ward", 7, at))


def test_a_dead_letter_is_named_after_its_original() -> None:
    assert dict(dead_letter_event("ward", "shoal.ward.events", 3, 4711)) == {
        "ce_specversion": b"1.0",
        "ce_type": b"shoal.dead-letter.v1",
        "ce_source": b"/shoal/ward",
        "ce_id": b"shoal.ward.events/3/4711",
    }


def test_what_a_rebuild_reads_is_not_touched() -> None:
    origin = Origin([3, 0], 7, "2026-01-01T00:00:00Z", [5, 2])
    headers = dict(manifest_headers("ward", 2, write_origin(origin)))
    assert read_origin(2, headers, 2) == origin
    assert headers["ce_time"] == b"2026-01-01T00:00:00Z"
