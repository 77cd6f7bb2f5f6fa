"""What a worker is doing right now, as a piece of the page: figures of its own, nothing about a person."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from html import escape
from typing import Any

from shoal.streams.intake.ingest import Ingest
from shoal.streams.prometheus import REJECTS
from shoal.streams.report.metrics.metric import Tile
from shoal.streams.report.page import write_tile
from shoal.streams.worker.standing import Standing


class Rate:
    """Events a second, between one look and the next."""

    def __init__(self) -> None:
        self._taken, self._at, self._last = 0, time.monotonic(), 0.0

    def of(self, taken: int) -> float:
        elapsed = time.monotonic() - self._at
        if elapsed >= 1.0:
            self._last = (taken - self._taken) / elapsed
            self._taken, self._at = taken, time.monotonic()
        return self._last


def write_now(ready: Mapping[str, Any], ingest: Ingest, standing: Standing, rate: Rate) -> Iterable[str]:
    """What `/ready` says, as text and tiles, and the state of every partition."""
    places = ingest.places()
    accepted, rejected = int(ready["accepted"]), int(ready["rejected"])
    tiles = [
        Tile("events a second", f"{rate.of(accepted + rejected):,.0f}", f"{accepted:,} accepted since the start"),
        Tile("lag", f"{sum(place.lag for place in places.values()):,}", "records still to be taken"),
        Tile(
            "window",
            f"{sum(place.window for place in places.values()):,}",
            "people changed since the last release",
        ),
        Tile("rejected", f"{rejected:,}", "since the start"),
        Tile("planner", standing.state.value, standing.step or standing.why or ""),
        Tile("next release", *_due(standing)),
    ]
    state, kind = escape(ready["state"]), "" if ready["ready"] else ' class="bad"'
    reason = f": {escape(ready['reason'])}" if ready["reason"] else ""
    yield f'<p>State: <b id="worker-state"{kind}>{state}</b>{reason}; role: {ready["role"]}.</p>'
    yield '<dl class="tiles">'
    yield from map(write_tile, tiles)
    yield "</dl>"
    yield from _rejects()
    if places:
        yield '<div class="scroll" tabindex="0" role="region" aria-label="Partitions"><table>'
        heads = "".join(f'<th scope="col">{head}</th>' for head in ("partition", "lag", "window"))
        yield f"<thead><tr>{heads}</tr></thead><tbody>"
        for number, place in sorted(places.items()):
            yield f'<tr><th scope="row">{number}</th><td>{place.lag:,}</td><td>{place.window:,}</td></tr>'
        yield "</tbody></table></div>"
    yield from _shards(ready)


def _shards(ready: Mapping[str, Any]) -> Iterable[str]:
    """Where every shard is, in a table that has several."""
    if not ready.get("shards"):
        return
    if "note" in ready:
        yield f"<p>{escape(ready['note'].capitalize())}.</p>"
    yield '<div class="scroll" tabindex="0" role="region" aria-label="Shards"><table>'
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("shard", "state", "owner", "people"))
    yield f"<thead><tr>{heads}</tr></thead><tbody>"
    for shard, word in ready["shards"].items():
        owner = "this worker" if int(shard) in ready["owned_shards"] else "another"
        why, people = ready["shard_failures"].get(shard), ready["shard_people"].get(shard, 0)
        state = escape(word if why is None else f"{word}: {why}")
        yield f'<tr><th scope="row">{shard}</th><td>{state}</td><td>{owner}</td><td>{people:,}</td></tr>'
    yield "</tbody></table></div>"


def _rejects() -> Iterable[str]:
    """Rejects by reason: a reason is one of a fixed list, never a text from an event."""
    found: Counter[str] = Counter()
    for metric in REJECTS.collect():
        for sample in metric.samples:
            if sample.name.endswith("_total"):
                found[sample.labels["reason"]] += int(sample.value)
    if found.total():
        yield f"<p>Rejected: {', '.join(f'{count:,} {escape(reason)}' for reason, count in found.most_common())}.</p>"


def _due(standing: Standing) -> tuple[str, str]:
    if standing.due_at is None:
        return "on request", f"the last is {standing.release}" if standing.release else ""
    left = standing.due_at - time.time()
    moment = datetime.fromtimestamp(standing.due_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return (f"in {left:,.0f} s" if left > 0 else "due"), moment
