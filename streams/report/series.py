"""The figures of a series of releases: what anyone can see, and with the private files how far it is from the truth."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from shoal.core.audit.reading.view import Line
from shoal.core.errors import CoreError
from shoal.core.measure.release_reader import ReleaseColumns, read_columns
from shoal.core.published.manifest import PublishedRelease
from shoal.streams.errors import InputError
from shoal.streams.files.audit import read_members, read_rows
from shoal.streams.files.event_lines import read_lines
from shoal.streams.files.release_folder import release_name
from shoal.streams.files.true_tables import Snapshot, tables_at_releases
from shoal.streams.files.whole_releases import whole_releases
from shoal.streams.report.metrics import METRICS
from shoal.streams.report.metrics.metric import Figures, Metric, Reading, Request, people_present


class Watcher(Protocol):
    """Shows progress."""

    def advance(self, amount: int) -> None: ...


def make_metrics(request: Request) -> list[Metric]:
    """Every metric of the report, for one series."""
    return [metric(request) for metric in METRICS]


def read_series(request: Request, metrics: Sequence[Metric], watcher: Watcher) -> tuple[list[Figures], ReleaseColumns]:
    """The figures of every release, in order, and the last release itself.

    Raises `InputError`, and `GuaranteeError` if the chain is broken.
    """
    found = []
    for reading in _read(request):
        figures: Figures = {}
        for metric in metrics:
            figures |= metric.measure(reading)
        found.append(figures)
        watcher.advance(1)
    for metric in metrics:
        found[-1] |= metric.conclude()
    return found, reading.published


def stated_figures(manifest: Mapping[str, Any]) -> Figures:
    """What a manifest alone says of its release, under the metrics' names."""
    found = {**manifest, **(manifest["loss"] or {})}
    if manifest["values"] == "lasting":  # where a row shows one value
        rows = manifest["rows"]
        found["hidden_share"] = (manifest["suppressed"] + manifest["generalized"]) / max(1, rows)
        found["vacant_share"] = manifest["vacant"] / max(1, rows + manifest["vacant"])
    # A manifest states a 0 for what its kind of table does not have. A report leaves that out.
    lacking = ("counterfeits",) if manifest["values"] == "lasting" else ("waiting", "vacant")
    return {name: figure for name, figure in found.items() if name not in lacking}


def _read(request: Request) -> Iterator[Reading]:
    policy, release = request.policy, None
    if request.out is None or not request.out.is_dir():
        raise InputError(f"{request.out} is not a folder of releases.")
    truths: Iterator[Snapshot] = iter(())
    policies = _policies(request.out, policy.digest)
    if request.events:
        truths = tables_at_releases(policy, read_lines(policy, request.events, request.format))
    for release in whole_releases(request.out, policy.table):
        manifest = release.meaning
        if manifest.get("policy") not in policies:
            raise InputError(f"release {release.number} was made under another policy than this one.")
        try:
            published = read_columns(policy, release.records)
        except CoreError as error:
            raise InputError(f"release {release.number}: {error}.") from None
        truth = _truth(release.number, people_present(dict(manifest)), next(truths)) if request.events else None
        yield Reading(release.number, manifest, published, truth, _members(request, release))
    if release is None:
        raise InputError(f"{request.out} has no releases in it.")
    following = next(truths, None)
    if following is not None and following.number is not None:
        raise InputError(f"the events make a release {following.number} that {request.out} does not have.")


def _policies(out: Path, digest: str) -> set[str]:
    """This policy and those it took over from, which have no label that it does not have, as the manifests say."""
    before: dict[str, str] = {}
    for path in out.glob("release-*/manifest.json"):
        with suppress(OSError, ValueError, TypeError, LookupError):  # what cannot be read is found out later
            manifest = json.loads(path.read_bytes())
            before[manifest["policy"]] = manifest["previous_policy"]
    found = {digest}
    while (digest := before.get(digest, "")) and digest not in found:
        found.add(digest)
    return found


def _truth(number: int, present: int, snapshot: Snapshot) -> Snapshot:
    """The true table of a release. Raises `InputError` if it cannot be the one that the release was made of."""
    if snapshot.number is None:
        raise InputError(f"the events make {number - 1} releases; give all events that led to release {number}.")
    if present != len(snapshot.table):
        raise InputError(
            f"release {number} was made from {present:,} people, but the events leave {len(snapshot.table):,} present; "
            "they are not the events that led to it."
        )
    return snapshot


def _members(request: Request, release: PublishedRelease) -> list[Line] | None:
    if request.audit is None:
        return None
    path = request.audit / f"{release_name(release.number)}.members.jsonl"
    return read_rows(path) if request.policy.values == "lasting" else [Line(*member) for member in read_members(path)]
