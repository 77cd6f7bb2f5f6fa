"""`/metrics`: what a worker has counted, and what it can look up when Prometheus asks.

Everything here is in memory. Neither Redis nor Kafka is asked, so a scrape takes milliseconds whatever state they are
in, even if they are down. Faust's own sensors stand beside Shoal's, under `faust_`; they see only triggers.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import faust
from faust.sensors.prometheus import FaustMetrics, PrometheusMonitor
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from shoal import __version__
from shoal.core.migrations import FORMAT
from shoal.core.state import ENGINE
from shoal.streams.intake.ingest import Ingest
from shoal.streams.intake.watch import Course
from shoal.streams.prometheus import REGISTRY, State
from shoal.streams.store.course import WORDS
from shoal.streams.worker.owners import Owners
from shoal.streams.worker.standing import FIGURES, Standing

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Exposition:
    """The metrics of one worker. Every one of Shoal's own has the label `table`."""

    def __init__(
        self, app: faust.App, table: str, ingest: Ingest, standing: Standing, owners: Owners | None = None
    ) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        app.monitor = PrometheusMonitor(metrics=FaustMetrics.create(self._registry, "faust"))
        self._registry.register(_OfTable(table, ingest, standing, owners))

    def write(self) -> bytes:
        """The page, in Prometheus' text format."""
        return generate_latest(self._registry)


class _OfTable(Collector):
    """What was counted and what is looked up, with the table's name."""

    def __init__(self, table: str, ingest: Ingest, standing: Standing, owners: Owners | None) -> None:
        self._table, self._ingest, self._standing, self._owners = table, ingest, standing, owners

    def collect(self) -> Iterator[Metric]:
        looked_up = (*_versions(), *_of_ingest(self._ingest), *_of_planner(self._standing), *_of_shards(self._owners))
        for metric in (*REGISTRY.collect(), *looked_up):
            metric.samples = [
                sample._replace(labels={"table": self._table, **sample.labels}) for sample in metric.samples
            ]
            yield metric

    def describe(self) -> Iterable[Metric]:
        """Nothing: what a collector describes is compared with other collectors' names, and there is one of these."""
        return ()


def _versions() -> Iterator[Metric]:
    labels = {"version": __version__, "engine": ENGINE, "format": str(FORMAT)}
    yield InfoMetricFamily("shoal_worker", "Versions: of Shoal, of its engine, of its state in Redis.", labels)


def _of_ingest(ingest: Ingest) -> Iterator[Metric]:
    course = GaugeMetricFamily("shoal_ingest_course", "1 for how ingest is getting on, else 0.", labels=["course"])
    now = ingest.course
    for one in Course:
        course.add_metric([one.value], now is one)
    yield course
    yield _gauge("shoal_partitions", "Events partitions of the table.", ingest.partitions)
    yield _gauge("shoal_partitions_assigned", "Events partitions that Kafka gave this worker.", ingest.assigned)
    yield _gauge("shoal_partitions_loaded", "Events partitions that this worker has loaded.", len(ingest.owned))
    lag = GaugeMetricFamily(
        "shoal_lag_records", "Records on the events topic that are still to be taken.", labels=["partition"]
    )
    window = GaugeMetricFamily(
        "shoal_window_people",
        "People in the open window, changed since the last release.",
        labels=["partition"],
    )
    heard = GaugeMetricFamily(
        "shoal_kafka_silence_seconds", "Seconds since Kafka last answered a fetch.", labels=["partition"]
    )
    letters = GaugeMetricFamily(
        "shoal_rejects_waiting_seconds",
        "For how long a partition has had rejects that are not dead letters, 0 without any.",
        labels=["partition"],
    )
    for number, place in ingest.places().items():
        lag.add_metric([str(number)], place.lag)
        window.add_metric([str(number)], place.window)
        letters.add_metric([str(number)], place.letters_s)
        if place.silence_s is not None:
            heard.add_metric([str(number)], place.silence_s)
    yield from (lag, window, letters, heard)


def _of_planner(standing: Standing) -> Iterator[Metric]:
    state = GaugeMetricFamily("shoal_planner_state", "1 for the state the planner is in, else 0.", labels=["state"])
    for one in State:
        state.add_metric([one.value], standing.state is one)
    yield state
    yield _gauge("shoal_planner_state_seconds", "Seconds in this state, or step of a release.", standing.seconds)
    if standing.state is State.ELSEWHERE:
        return  # another worker knows better
    yield _gauge("shoal_release_number", "The last release.", standing.release)
    yield _gauge("shoal_people", "People in the state, absent ones included.", standing.people)
    if standing.published_at is not None:
        yield _gauge("shoal_release_timestamp_seconds", "When the last release was published.", standing.published_at)
    if standing.due_at is not None:
        yield _gauge("shoal_release_due_timestamp_seconds", "When the policy wants the next release.", standing.due_at)
    if standing.snapshot is not None:
        yield _gauge("shoal_snapshot_release", "The release of the newest snapshot, 0 without one.", standing.snapshot)
    for name in FIGURES:
        if name in standing.figures:
            yield _gauge(f"shoal_release_{name}", f"`{name}` in the last manifest.", standing.figures[name])


def _of_shards(owners: Owners | None) -> Iterator[Metric]:
    if owners is None:
        return
    state = GaugeMetricFamily(
        "shoal_shard_state", "1 for where a shard is in the release under way, else 0.", labels=["shard", "state"]
    )
    owned = GaugeMetricFamily("shoal_shard_owned", "1 for a shard that this worker owns, else 0.", labels=["shard"])
    people = GaugeMetricFamily("shoal_shard_people", "People in a shard, absent ones included.", labels=["shard"])
    late = GaugeMetricFamily(
        "shoal_shard_waited_for_seconds", "For how long a release has waited for a shard, else 0.", labels=["shard"]
    )
    waited_for_s = owners.waited_for_s
    for shard, now in owners.words.items():
        owned.add_metric([str(shard)], shard in owners.owned)
        people.add_metric([str(shard)], owners.people.get(shard, 0))
        late.add_metric([str(shard)], waited_for_s.get(shard, 0.0))
        for one in WORDS:
            state.add_metric([str(shard), one], now == one)
    yield from (state, owned, people, late)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
