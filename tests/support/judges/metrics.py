"""A judge of `/metrics`: which label values of a page could have come with a record."""

import re
from collections.abc import Iterable
from enum import StrEnum

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

import shoal
from shoal.core.migrations import FORMAT
from shoal.core.state import ENGINE
from shoal.streams.intake.watch import Course
from shoal.streams.kafka.topics import Topics
from shoal.streams.prometheus import (
    OTHER,
    OUTCOMES,
    PARTS,
    REASONS,
    REQUESTS,
    SERVICES,
    SNAPSHOT_OUTCOMES,
    SOURCES,
    STEPS,
    State,
)
from shoal.streams.store.course import WORDS
from tests.support.root import ROOT

_NUMBER = re.compile(r"\d+(\.\d+)?|\+Inf")
_SCRIPTS = [path.stem for path in (ROOT / "streams" / "store" / "lua").glob("*.lua")]


def read_page(page: str) -> dict[str, Metric]:
    """The metrics of a page by name. Raises ValueError if Prometheus could not read it."""
    return {metric.name: metric for metric in text_string_to_metric_families(page)}


def value(page: str, name: str, **labels: str) -> float:
    """The one sample of that name with these labels."""
    samples = [sample for metric in read_page(page).values() for sample in metric.samples]
    (found,) = [one.value for one in samples if one.name == name and labels.items() <= one.labels.items()]
    return found


def allowed(table: str) -> dict[str, set[str]]:
    """The words that each label may have, besides numbers."""
    topics = Topics(table)
    return {
        "table": {table},
        "version": {shoal.__version__},
        "engine": {ENGINE},
        "format": {str(FORMAT)},
        "outcome": {*OUTCOMES, *SNAPSHOT_OUTCOMES},
        "source": {*SOURCES, OTHER},
        "reason": {*REASONS, OTHER},
        "step": {*STEPS},
        "service": {*SERVICES},
        "part": {*PARTS},
        "request": {*REQUESTS},
        "script": {*_SCRIPTS},
        "state": {*_words(State), *WORDS},
        "shard": set(),
        "course": _words(Course),
        # Faust's: its only topic, and the stream on it.
        "topic": {topics.triggers, f"topic.{topics.triggers}"},
        "stream": {f"stream.topic_{topics.triggers}.events"},
        "operation": {"completed", "error"},
    }


def foreign_labels(page: str, table: str) -> list[tuple[str, str, str]]:
    """(metric, label, value) of every label that is neither a number nor one of its label's words."""
    words = allowed(table)
    return [
        (sample.name, label, found)
        for metric in read_page(page).values()
        for sample in metric.samples
        for label, found in sample.labels.items()
        if not _NUMBER.fullmatch(found) and found not in words.get(label, ())
    ]


def _words(enum: Iterable[StrEnum]) -> set[str]:
    return {one.value for one in enum}
