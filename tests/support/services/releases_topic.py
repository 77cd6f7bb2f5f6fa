"""Releases of a folder on a real releases topic, as a worker puts them there."""

from collections.abc import Iterable
from pathlib import Path

import shoal
from shoal.core.published.manifest import PublishedRelease
from shoal.streams.files.release_folder import read_releases
from shoal.streams.kafka.manifest import Origin, write_origin
from shoal.streams.kafka.topics import ensure_topics
from shoal.streams.store.staging import SealedRelease
from shoal.streams.worker.publish import Publisher
from tests.support.root import ROOT

WARD = ROOT / "examples" / "ward"


def make_releases(folder: Path, table: str, count: int = 3, full_every: int = 1) -> tuple[Path, list[PublishedRelease]]:
    """The policy of the ward under another name, and its releases; after the third nothing changes any more."""
    policy = folder / "policy.yaml"
    text = (WARD / "policy.yaml").read_text().replace("table: ward", f"table: {table}")
    policy.write_text(text + f"release: {{full_every: {full_every}}}\n")
    (folder / "disease.csv").write_bytes((WARD / "disease.csv").read_bytes())
    events = folder / "events.jsonl"
    events.write_text((WARD / "events.jsonl").read_text() + '{"op": "release"}\n' * (count - 3))
    shoal.replay(shoal.load_policy(policy), events, folder / "out", key="a secret of the tests")
    return policy, list(read_releases(folder / "out"))[:count]


async def publish(kafka: str, table: str, releases: Iterable[PublishedRelease]) -> None:
    """Each release in a transaction, after those that are there."""
    await ensure_topics([kafka], table, 2)
    publisher = Publisher([kafka], table)
    await publisher.start()
    for files in releases:
        headers = write_origin(Origin([0, 0], files.number))
        sealed = SealedRelease(number=files.number, manifest=files.manifest, headers=headers)
        await publisher.publish(sealed, files.records)
    await publisher.stop()
