"""Releases that hold only what changed, on real services: every reader knows what stands, and says what is missing."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import shoal
from shoal.streams.cli import main
from shoal.streams.files.whole_releases import whole_releases
from shoal.streams.kafka.history import History
from tests.fault.scene import EVERYTHING, EVERYTHING_REDRAWN, Scene
from tests.support.services.kept import Target, check

FULL_EVERY = 4
_KINDS = {
    "lasting": EVERYTHING,
    "redrawn": EVERYTHING_REDRAWN,
    "shards": {**EVERYTHING, "scale": {"shards": 3}},
}


@pytest.fixture(params=_KINDS)
def clinic(request: pytest.FixtureRequest, kafka: str, redis_db: str, table: str, tmp_path: Path) -> Iterator[Scene]:
    changes = {**_KINDS[request.param], "release": {"full_every": FULL_EVERY}}
    made = Scene(kafka, redis_db, tmp_path, table, **changes)
    yield made
    made.close()


def _serve(clinic: Scene, releases: int) -> None:
    for _ in range(releases):
        clinic.pour(400)  # enough people for the cuts
        clinic.ask()
        clinic.await_served()


@pytest.mark.timeout(400)
def test_what_changed_is_published_and_every_reader_puts_it_together(
    clinic: Scene, kafka: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = ["--policy", str(clinic.policy_path), "--kafka", kafka]
    target = Target("parquet", "", tmp_path / "kept", clinic.name)
    worker = clinic.start()
    clinic.settle()
    _serve(clinic, 5)
    assert main(["sink", target.name, "--once", *source]) == 0  # it goes on later, after a delta
    worker.kill()
    again = clinic.start()  # what stood before is in no memory now, and must be made again from Redis
    _serve(clinic, 3)
    releases = clinic.finish()  # hears the judge, who plans every release again
    last, folder = len(releases), tmp_path / "topic"
    assert sum(not all(part["full"] for part in json.loads(one.manifest)["shards"]) for one in releases) > 4

    assert main(["releases", *source, "--out", str(folder)]) == 0
    assert main(["audit", str(clinic.policy_path), str(folder)]) == 0
    assert main(["sink", target.name, "--once", *source]) == 0
    check(target, folder, last, tmp_path / "expected")
    whole = list(whole_releases(folder))
    assert len(whole) == last
    found = shoal.read_topic(shoal.load_policy(clinic.policy_path), kafka=kafka)
    assert [(one.cell_records, one.group_records) for one in found] == [(one.cells, one.groups) for one in whole]
    history = History([kafka], clinic.name, most=3)

    async def look() -> None:
        assert [known.number for known in await history.look()] == [last - 2, last - 1, last]
        for one in whole[-3:]:
            assert await history.records(one.number) == list(one.records)

    asyncio.run(look())
    assert again.stop() == 0
    capsys.readouterr()
    if "shards" in json.loads(clinic.policy_path.read_text()).get("scale", {}):
        _lose_a_part(clinic, kafka)
        assert main(["releases", *source]) == 1
        said = capsys.readouterr().err
        assert "no longer has offset" in said or "ends before the part" in said
        assert said.count("\n") == 1


def _lose_a_part(clinic: Scene, kafka: str) -> None:
    """As retention would."""
    client = AdminClient({"bootstrap.servers": kafka})
    partition = TopicPartition(clinic.topics.releases, 1, 5)
    for future in client.delete_records([partition]).values():
        future.result(30)
