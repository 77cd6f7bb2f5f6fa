"""What readers say of a part that lost a record, or has another: one sentence, and nothing is kept."""

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import shoal
from shoal.streams.cli import main
from shoal.streams.errors import GuaranteeError
from shoal.streams.kafka.history import History
from tests.support.services.table import Record, Table, insert

SHARDS, PEOPLE, RELEASES, KEPT = 2, 120, 4, 2
Copy = dict[int, Record]  # the records of a partition by their offsets


@pytest.fixture(scope="module")
def town(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    """Four releases, of which all but the first hold only what changed; a sink keeps the second."""
    folder = tmp_path_factory.mktemp("readers")
    made = Table(
        kafka, redis_url, folder, "readers", 2, scale={"shards": SHARDS}, release={"full_every": 50}
    )  # fmt: skip
    try:
        worker = made.start_planner()
        made.send(insert(number) for number in range(PEOPLE))
        made.release()
        for number in range(2, RELEASES + 1):
            some = range(number, PEOPLE, 9)
            made.send({"op": "update", "id": f"p{one}", "qid": {"age": (one * 11 + number) % 121}} for one in some)
            made.release()
            if number == KEPT:
                assert main(["sink", str(folder / "kept"), "--once", *_source(made)]) == 0
        assert worker.stop() == 0
        yield made
    finally:
        made.close()
        made.wipe()


def _source(town: Table) -> list[str]:
    return ["--policy", str(town.policy_path), "--kafka", town.kafka]


@pytest.fixture(scope="module")
def parts(town: Table) -> list[Copy]:
    """Everything that stands on the releases topic."""
    return [{one.offset: one for one in town.read(town.topics.releases, shard)} for shard in range(SHARDS)]


def _of(town: Table, part: Copy, release: int) -> list[int]:
    """The offsets of a part's records of a release."""
    key = f"{town.name}/{release}".encode()
    return sorted(offset for offset, one in part.items() if one.key == key and "kind" not in one.headers)


def _write_anew(town: Table, parts: list[Copy]) -> None:
    """The topic with these records where they were: wherever one is missing, a transaction ends with its marker."""
    topic, admin = town.topics.releases, AdminClient({"bootstrap.servers": town.kafka, "log_level": 0})
    _delete(town)
    deadline = time.monotonic() + 30
    while True:
        try:
            admin.create_topics([NewTopic(topic, SHARDS, 1, config={"retention.ms": "-1"})])[topic].result(10)
            break
        except KafkaException:  # it is still being deleted
            assert time.monotonic() < deadline, "the topic could not be made again"
            time.sleep(0.2)
    producer = Producer({"bootstrap.servers": town.kafka, "transactional.id": f"{town.name}.anew"})
    producer.init_transactions(30)
    for shard, part in enumerate(parts):
        for offset, one in sorted(part.items()):
            if offset - 1 not in part:
                producer.begin_transaction()
            headers = list(one.headers.items())
            producer.produce(topic, one.value, one.key, partition=shard, headers=headers)
            if offset + 1 not in part:
                producer.commit_transaction(30)
    assert all(town.read(topic, shard)[-1].offset == max(part) for shard, part in enumerate(parts) if part)


def _delete(town: Table) -> None:
    admin = AdminClient({"bootstrap.servers": town.kafka, "log_level": 0})
    if town.topics.releases in admin.list_topics(timeout=10).topics:
        admin.delete_topics([town.topics.releases])[town.topics.releases].result(10)
    deadline = time.monotonic() + 30
    while town.topics.releases in admin.list_topics(timeout=10).topics:
        assert time.monotonic() < deadline, "the topic was not deleted"
        time.sleep(0.1)


def _change(town: Table, parts: list[Copy], release: int) -> list[Copy]:
    """One record of a part says something else."""
    offset = _of(town, parts[0], release)[0]
    one = parts[0][offset]
    assert one.value is not None
    changed = one.value.replace(b'"people":', b'"people":1', 1)
    assert changed != one.value
    return [{**parts[0], offset: replace(one, value=changed)}, *parts[1:]]


def _lose(town: Table, parts: list[Copy], release: int) -> list[Copy]:
    """One record of a part is not there."""
    offset = _of(town, parts[1], release)[-2]
    return [parts[0], {at: one for at, one in parts[1].items() if at != offset}]


def _cut_short(town: Table, parts: list[Copy], release: int) -> list[Copy]:
    """The part of a release and everything behind it is not there."""
    first = _of(town, parts[1], release)[0]
    return [parts[0], {at: one for at, one in parts[1].items() if at < first}]


_DAMAGES: dict[str, tuple[Callable[[Table, list[Copy], int], list[Copy]], str]] = {
    "a record is another": (_change, "are not those that its manifest names"),
    "a record is missing": (_lose, "record"),
    "a part is missing": (_cut_short, "ends before the part of release"),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("release", [1, 3])
@pytest.mark.parametrize("damage", _DAMAGES)
def test_a_damaged_part_is_one_sentence_for_every_reader(
    town: Table, parts: list[Copy], tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str, release: int
) -> None:
    change, words = _DAMAGES[damage]
    _write_anew(town, change(town, parts, release))
    kept = tmp_path / "kept"
    shutil.copytree(town.folder / "kept", kept, symlinks=True)
    latest = (kept / "latest").resolve().name
    for command in (
        ["releases"],
        ["releases", "--out", str(tmp_path / "releases")],
        ["sink", str(tmp_path / "new"), "--once"],
        ["sink", str(kept), "--once"],  # begins in the middle, and needs what is before it
    ):
        capsys.readouterr()
        assert main([*command, *_source(town)]) == 1, command
        said = capsys.readouterr().err
        assert said.count("\n") == 1, said
        # Who begins in the middle may find another part missing first, if all behind one of them are.
        assert f"release {release}" in said or (str(kept) in command and damage == "a part is missing"), said
        assert words in said, (command, said)
    assert (kept / "latest").resolve().name == latest, "the target keeps what it had"
    assert not (tmp_path / "new" / "latest").exists()
    assert not (tmp_path / "releases" / f"release-{release:04}").exists()
    with pytest.raises(GuaranteeError, match=words):
        shoal.read_topic(shoal.load_policy(town.policy_path), kafka=town.kafka)
    history = History([town.kafka], town.name, most=1)

    async def look() -> None:
        (newest,) = await history.look()
        await history.records(newest.number)

    with pytest.raises(GuaranteeError, match=words):
        asyncio.run(look())


@pytest.mark.timeout(300)
def test_a_topic_that_is_gone_is_one_sentence_and_one_that_is_back_is_read(
    town: Table, parts: list[Copy], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _delete(town)
    capsys.readouterr()
    for command in (["releases"], ["sink", str(tmp_path / "new"), "--once"]):
        assert main([*command, *_source(town)]) == 2
        said = capsys.readouterr().err
        assert (said.count("\n"), f"there is no topic {town.topics.releases}" in said) == (1, True), said
    _write_anew(town, parts)
    shutil.copytree(town.folder / "kept", tmp_path / "kept", symlinks=True)
    for command in (
        ["releases"],
        ["sink", str(tmp_path / "new"), "--once"],
        ["sink", str(tmp_path / "kept"), "--once"],
    ):
        assert main([*command, *_source(town)]) == 0, capsys.readouterr().err
    new, kept = ((tmp_path / name / "latest").resolve().name for name in ("new", "kept"))
    assert new == kept
