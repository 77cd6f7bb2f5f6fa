"""The figures of a series of releases: what anyone can see, and with the private files how far it is from the truth."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from shoal.core.errors import CoreError
from shoal.core.measure.metrics import measure_release
from shoal.core.measure.query import (
    QUERY_METRICS,
    Query,
    count_true,
    draw_queries,
    estimate,
    query_error,
    truth_of,
)
from shoal.core.measure.release_reader import ReleaseColumns, read_columns
from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.files.audit import read_members
from shoal.streams.files.event_lines import BY_NAME, read_lines
from shoal.streams.files.formats.format import FormatChoice
from shoal.streams.files.release_folder import read_releases, release_name
from shoal.streams.files.true_tables import Snapshot, tables_at_releases
from shoal.streams.kafka.chain import Chain
from shoal.streams.report.breach import Accounts, Spent

STATED = (
    "release", "published_at", "rows", "withheld", "unsampled", "groups", "formed", "carried", "suppressed",
    "generalized", "counterfeits", "max_breach", "bound",
)  # fmt: skip

Figures = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """What to report on. `events` and `audit` are private and may be left out."""

    policy: Policy
    out: Path
    events: Sequence[str] = ()
    audit: Path | None = None
    queries: int = 1000
    seed: str = "queries"
    format: FormatChoice = BY_NAME  # of the events


class Watcher(Protocol):
    """Whoever shows progress."""

    def advance(self, amount: int) -> None: ...


def read_series(request: Request, watcher: Watcher) -> list[Figures]:
    """The figures of every release, in order. Raises `InputError`, and `GuaranteeError` if the chain is broken."""
    return list(_Reader(request, watcher).read())


class _Reader:
    def __init__(self, request: Request, watcher: Watcher) -> None:
        self._request, self._watcher = request, watcher
        self._policy = request.policy
        self._accounts = Accounts(request.policy) if request.audit else None
        self._queries: tuple[Query, ...] = ()
        self._truths: Iterator[Snapshot] = iter(())
        if request.events:
            self._queries = draw_queries(request.policy, request.seed, request.queries)
            lines = read_lines(request.policy, request.events, request.format)
            self._truths = tables_at_releases(request.policy, lines)

    def read(self) -> Iterator[Figures]:
        chain = Chain(self._policy.table)
        if not self._request.out.is_dir():
            raise InputError(f"{self._request.out} is not a folder of releases.")
        for release in read_releases(self._request.out):
            manifest = chain.add(release.records, release.manifest)
            if manifest.get("policy") != self._policy.digest:
                raise InputError(f"release {release.number} was made under another policy than this one.")
            try:
                columns = read_columns(self._policy, release.records)
            except CoreError as error:
                raise InputError(f"release {release.number}: {error}.") from None
            figures = {name: manifest[name] for name in STATED} | measure_release(columns)
            figures |= self._error(release.number, figures, columns) | self._spent(release.number, columns)
            self._watcher.advance(1)
            yield figures
        if chain.number == 0:
            raise InputError(f"{self._request.out} has no releases in it.")
        following = next(self._truths, None)
        if following is not None and following.number is not None:
            raise InputError(f"the events make a release {following.number} that {self._request.out} does not have.")

    def _error(self, number: int, figures: Figures, columns: ReleaseColumns) -> Figures:
        if not self._queries:
            return {}
        snapshot = next(self._truths)
        if snapshot.number is None:
            raise InputError(f"the events make {number - 1} releases; give all events that led to release {number}.")
        present = figures["rows"] + figures["withheld"] + figures["unsampled"]
        if present != len(snapshot.table):
            raise InputError(
                f"release {number} was made of {present:,} people and the events come to {len(snapshot.table):,}; "
                "they are not the events that led to it."
            )
        truth = truth_of(self._policy, ((record.qid, tuple(record.values)) for record in snapshot.table.values()))
        answers = estimate(columns, self._queries)
        error = query_error(answers, count_true(truth, self._queries), len(truth.leaves))
        return {metric.name: metric.measure(error) for metric in QUERY_METRICS}

    def _spent(self, number: int, columns: ReleaseColumns) -> Figures:
        if self._accounts is None:
            return {}
        assert self._request.audit is not None
        members = read_members(self._request.audit / f"{release_name(number)}.members.jsonl")
        spent: Spent | None = self._accounts.see(number, columns, members)
        return {"breach_median": spent and spent.median, "breach_most": spent and spent.most}
