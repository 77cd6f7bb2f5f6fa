"""What a few histories come to, as one digest each; `python -m tests.golden.engine_digests` records it anew.

A table is bound to the engine that made its releases: a rebuild must give the same bytes. So whoever changes what the
same events give must raise ENGINE in core/state.py, and then record these digests anew, with it.
"""

import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from shoal.core.policy.policy import Policy, build_policy
from shoal.core.state import ENGINE
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.files.replay import Job, replay
from shoal.streams.files.unwatched import Unwatched
from tests.support.histories.mixed import Event, draw_events, draw_policy
from tests.support.root import ROOT

RECORDED: Final = Path(__file__).with_name("engine.json")
_WARD: Final = ROOT / "examples" / "ward"
_FILES: Final = ("engine", "policy", "previous", "previous_policy")  # say nothing of what the engine does


def digests() -> dict[str, str]:
    """By the name of a history, the sha256 of what its manifests say."""
    return {name: _digest(policy, events) for name, policy, events in _histories()}


def _histories() -> Iterator[tuple[str, Policy, str | Sequence[Any]]]:
    for name in ("policy", "redrawn"):
        yield f"ward, {name}", load_policy(_WARD / f"{name}.yaml"), str(_WARD / "events.jsonl")
    for seed in range(4):
        draw = random.Random(seed)
        policy = draw_policy(draw)
        yield f"mixed {seed}", policy, list(draw_events(draw, policy, 120, 5))
    yield "crowd", *_crowd(random.Random(0))


def _crowd(draw: random.Random) -> tuple[Policy, list[Event]]:
    """Enough people with one value each that rare values find company of their own: no other history here has."""
    labels = [f"d{rank}" for rank in range(24)]
    document = {
        "table": "crowd",
        "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
        "sensitive": {"name": "disease", "values": labels},
        "privacy": {"k": 5, "l": 2},
    }
    weights = [1 / (rank + 4) for rank in range(len(labels))]

    def insert(number: int) -> Event:
        value = draw.choices(labels, weights)[0]
        return {"op": "insert", "id": f"p{number}", "qid": {"age": draw.randrange(100)}, "sensitive": [value]}

    events = [insert(number) for number in range(600)]
    for release in range(3):
        events.append({"op": "release"})
        gone = draw.sample(range(600), 30) if release == 0 else []
        events += ({"op": "delete", "id": f"p{number}"} for number in gone)
        events += (insert(1_000 * (release + 1) + number) for number in range(30))
    return build_policy(document, {}, b"crowd"), events


def _digest(policy: Policy, events: str | Sequence[Any]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        replay(Job(policy, events, out, secret=b"golden"), Unwatched())
        manifests = [json.loads(path.read_bytes()) for path in sorted(out.glob("release-*/manifest.json"))]
    said = [{name: value for name, value in manifest.items() if name not in _FILES} for manifest in manifests]
    assert len(said) > 1, "a history of one release says little"
    return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


if __name__ == "__main__":
    RECORDED.write_text(json.dumps({"engine": ENGINE, "histories": digests()}, indent=2) + "\n")
