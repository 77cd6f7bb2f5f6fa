"""What a worker counts of its own work, for its log and `/ready`; what Prometheus sees is in prometheus.py.

A metric is a number with a name, never text, so that nothing about a person can become one. Every field of `Metrics`
is in the answer of `/ready` and in the log's `ingest.progress`, under its own name; the log's allow-list takes the
names from here. To add one, add a field and count it where the thing happens.
"""

from dataclasses import asdict, dataclass, fields


@dataclass
class Metrics:
    """Since the worker started, unless the field says otherwise."""

    lag: int = 0
    """Records on the events topic, in this worker's partitions, that it has still to take: as of now."""
    accepted: int = 0
    """Events that had an effect."""
    rejected: int = 0
    """Events that became, or will become, dead letters."""

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


METRICS = frozenset(field.name for field in fields(Metrics))
