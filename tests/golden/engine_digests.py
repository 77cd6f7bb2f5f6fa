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

from shoal.core.policy.policy import Policy
from shoal.core.state import ENGINE
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.files.replay import Job, replay
from shoal.streams.files.unwatched import Unwatched
from tests.support.histories.mixed import draw_events, draw_policy
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
