"""The log: nothing about a person gets through it."""

import io
import json
import logging

import pytest

from shoal.streams.log import FIELDS, configure_log, get_log, keep_allowed


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    output = io.StringIO()
    monkeypatch.setattr("sys.stderr", output)
    configure_log("json", "debug")
    return output


def test_a_field_that_is_not_on_the_list_is_left_out_and_counted() -> None:
    event = keep_allowed(None, "info", {"event": "x", "person": "canary", "release": 3})
    assert event == {"event": "x", "release": 3, "removed": 1}


def test_no_field_on_the_list_could_hold_an_id_or_a_value() -> None:
    assert not FIELDS & {"id", "key", "value", "qid", "sensitive", "person", "record", "headers", "message"}


def test_own_events_come_out_as_one_line_each(lines: io.StringIO) -> None:
    get_log(table="t").info("release.sealed", release=2, secret="canary")
    found = json.loads(lines.getvalue())
    assert (found["event"], found["release"], found["table"]) == ("release.sealed", 2, "t")
    assert "canary" not in lines.getvalue()


def test_what_libraries_say_is_passed_on_without_its_arguments(lines: io.StringIO) -> None:
    logging.getLogger("aiokafka.producer").warning("Could not send %r: %s", b"canary", "canary")
    logging.getLogger("faust.agents").error(f"crashed on {'canary'!r}")  # noqa: G004 - as libraries do
    try:
        int("canary")
    except ValueError:
        logging.getLogger("mode.services").exception("Crashed reason=%r", "canary")
    text = lines.getvalue()
    assert "canary" not in text
    assert "Could not send %r: %s" in text
    assert '"error": "ValueError"' in text


def test_a_library_that_repeats_itself_is_passed_on_once_in_a_while(lines: io.StringIO) -> None:
    for node in range(50):
        logging.getLogger("aiokafka").error("Unable connect to node %s", node)
    assert lines.getvalue().count("Unable connect") == 1


def test_what_libraries_tell_below_a_warning_is_not_passed_on(lines: io.StringIO) -> None:
    logging.getLogger("aiokafka").info("Sending (key=%s value=%s)", "canary", "canary")
    assert lines.getvalue() == ""
