"""What a metric of the report provides: figures of each release, in numbers and in words, tiles and plots."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from shoal.core.audit.reading.view import Line as Row
from shoal.core.measure.count import Answers
from shoal.core.measure.metrics import measure_release
from shoal.core.measure.query import Truth, truth_of
from shoal.core.measure.release_reader import ReleaseColumns
from shoal.core.policy.policy import Policy
from shoal.streams.files.event_lines import BY_NAME
from shoal.streams.files.formats.format import FormatChoice
from shoal.streams.files.true_tables import Snapshot
from shoal.streams.report.panel import Line, Panel

Figures = dict[str, Any]  # the figures of one release, by name; one that cannot be measured is None or missing


@dataclass(frozen=True)
class Request:
    """What to report on: a folder of releases, or None for those of a worker. `events` and `audit` are private and may
    be left out.
    """

    policy: Policy
    out: Path | None
    events: Sequence[str] = ()
    audit: Path | None = None
    queries: int = 1000
    seed: str = "queries"
    format: FormatChoice = BY_NAME  # of the events


@dataclass(frozen=True)
class Reading:
    """One release as a metric sees it. `truth` and `members` are None where the report was not given them."""

    number: int
    manifest: Mapping[str, Any]
    published: ReleaseColumns
    truth: Snapshot | None
    members: Sequence[Row] | None

    @cached_property
    def _measured(self) -> Figures:
        return dict(measure_release(self.published))

    @cached_property
    def answers(self) -> Answers:
        """What the release answers; fitted once for all metrics."""
        return Answers(self.published)

    @cached_property
    def true_table(self) -> Truth:
        """The true table in columns; only with the events."""
        assert self.truth is not None
        people = self.truth.table.values()
        return truth_of(self.published.policy, [(record.qid, tuple(record.values)) for record in people])

    def measured(self, *names: str) -> Figures:
        """The metrics of `core/measure/metrics.py` with these names, from the published records; None without rows."""
        return {name: self._measured[name] for name in names}

    def stated(self, *names: str) -> Figures:
        """What the manifest says under these names."""
        return {name: self.manifest[name] for name in names}


class Figure(NamedTuple):
    """A column of the table: its head, its format (Python's, or % for a share), and what it means."""

    head: str
    how: str
    meaning: str = ""

    def write(self, value: Any) -> str:
        """The figure as text; a missing one is a dash."""
        if value is None:
            return "–"
        return f"{100 * value:.2f} %" if self.how == "%" else format(value, self.how)


class Tile(NamedTuple):
    """One figure of the last release, large, with a remark below it."""

    name: str
    value: str
    remark: str


class Picture(NamedTuple):
    """A plot, and what it shows in a sentence."""

    panel: Panel
    caption: str


class Metric(ABC):
    """One thing that the report measures. It is made once for a series, and sees the releases in order."""

    figures: ClassVar[Mapping[str, Figure]]  # the columns of the table that it fills

    def __init__(self, request: Request) -> None:
        self.request = request

    @abstractmethod
    def measure(self, reading: Reading) -> Figures:
        """The figures of one release."""

    def conclude(self) -> Figures:
        """Figures about the whole series, which stand with its last release."""
        return {}

    def tiles(self, last: Figures) -> Sequence[Tile]:  # noqa: ARG002 - most metrics have some
        """Tiles on the last release, given all of its figures."""
        return ()

    def warnings(self, last: Figures) -> Iterable[str]:  # noqa: ARG002
        """Sentences on what somebody who kept all releases could do, given the figures of the last one."""
        return ()

    def pictures(self, series: Sequence[Figures]) -> Sequence[Picture]:  # noqa: ARG002
        """Plots over the releases, given all of their figures."""
        return ()

    def write(self, figures: Figures, name: str) -> str:
        """One of this metric's figures as text."""
        return self.figures[name].write(figures.get(name))


def curve(series: Sequence[Figures], name: str, label: str, is_bound: bool = False) -> Line:
    """One figure over the releases, as a line of a plot."""
    x = [figures["release"] for figures in series]
    return Line(label, x, [figures.get(name) for figures in series], is_bound)


def people_present(figures: Figures) -> int:
    """How many people the true table of a release had."""
    return int(figures["people"]) + int(figures["withheld"]) + int(figures["unsampled"])
