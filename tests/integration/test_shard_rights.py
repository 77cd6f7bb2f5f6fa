"""The fewest rights in a table with shards: enough for everyone, and each of them is named where it is missing."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import shoal
from shoal.streams.cli import main
from shoal.streams.errors import InputError
from shoal.streams.kafka.entry import enter
from shoal.streams.kafka.rights import TRANSACTION, Right, worker_rights
from shoal.streams.kafka.topics import ensure_topics
from shoal.streams.settings import load_settings
from tests.support.services.secure_kafka import SecureKafka, documented
from tests.support.services.table import Table, inserts

SHARDS, PEOPLE = 2, 100
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def secured(secure_kafka: SecureKafka, redis_url: str, tmp_path: Path, table: str) -> Iterator[Table]:
    """A table with shards on the broker with an authorizer."""
    made = Table(secure_kafka.address, redis_url, tmp_path, table, scale={"shards": SHARDS})
    asyncio.run(ensure_topics([secure_kafka.address], table, made.partitions, shards=SHARDS))
    yield made
    made.close()


@pytest.fixture
def run(
    secure_kafka: SecureKafka, secured: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs a command as a user: its exit code, and what it said."""

    def _run(user: str, *command: str) -> tuple[int, str]:
        for name, text in secured.environment(**secure_kafka.settings_for(user)).items():
            monkeypatch.setenv(name, text)
        capsys.readouterr()
        code, said = main(list(command)), capsys.readouterr()
        return code, said.err if code else said.out

    return _run


@pytest.mark.timeout(300)
def test_the_rights_in_the_docs_are_enough(
    secure_kafka: SecureKafka, secured: Table, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, policy = secured.name, str(secured.policy_path)
    for user, role in (("worker", "shoal worker"), ("producer", "shoal produce"), ("requester", "shoal release")):
        secure_kafka.grant(user, documented(role, name, shards=True))
    worker = secured.start_planner(**secure_kafka.settings_for("worker"))
    file = secured.folder / "events.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in inserts(0, PEOPLE)))
    assert f"{PEOPLE + 4} events sent" in run("producer", "produce", policy, str(file))[1]
    assert run("requester", "release")[0] == 0
    (release,) = secured.await_releases(1)
    assert [part["shard"] for part in json.loads(release.manifest)["shards"]] == [0, 1]

    kept, read = str(secured.folder / "kept"), documented("shoal releases", name)
    assert read == documented("shoal sink", name)
    commands = (("releases",), ("sink", kept, "--once"), ("release", "--wait"))
    secure_kafka.grant("consumer", [*documented("shoal release", name), *read])
    for command in commands:
        assert run("consumer", *command)[0] == 0
    assert len(shoal.read_topic(shoal.load_policy(policy))) >= 2

    assert worker.stop() == 0
    (needed,) = documented("shoal snapshot", name, shards=True)
    secure_kafka.grant("consumer", [needed])
    assert run("consumer", "snapshot", f"{kept}.snapshot")[0] == 0
    secured.wipe()
    secure_kafka.grant("consumer", [])
    code, said = run("consumer", "restore", f"{kept}.snapshot")
    assert (code, f"grant {needed}" in said) == (2, True), said
    secure_kafka.grant("consumer", documented("shoal restore", name, shards=True))
    assert run("consumer", "restore", f"{kept}.snapshot")[0] == 0

    secured.wipe()
    rebuilt = secured.run("rebuild", **secure_kafka.settings_for("worker"))
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert secured.run("doctor", **secure_kafka.settings_for("worker")).returncode == 0


def test_with_one_right_less_worker_and_doctor_name_it(secure_kafka: SecureKafka, secured: Table) -> None:
    rights = documented("shoal worker", secured.name, shards=True)
    assert sorted(rights) == sorted(worker_rights(secured.name, shards=SHARDS)), "docs and program ask for the same"
    plain = worker_rights(secured.name)
    ours = secure_kafka.settings_for("worker")
    settings = load_settings({f"SHOAL_{name}": text for name, text in ours.items()}, Path("/nonexistent/.env"))
    for right in (one for one in rights if one not in plain):
        secure_kafka.grant("worker", [other for other in rights if other != right])
        with pytest.raises(InputError) as caught:
            asyncio.run(enter(settings, secured.name, rights, checks_topics=True, shards=SHARDS))
        assert str(right) in str(caught.value)
    refused = secured.start(**ours)  # without the last of them
    assert refused.wait(60) == 2
    assert str(right) in refused.log.splitlines()[-1]
    found = secured.run("doctor", "--json", **ours)
    assert found.returncode == 2
    assert str(right) in found.stdout


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["topic", TRANSACTION])
def test_a_right_that_is_taken_away_ends_the_worker_with_a_sentence(
    secure_kafka: SecureKafka, secured: Table, kind: str
) -> None:
    rights = worker_rights(secured.name, shards=SHARDS)
    secure_kafka.grant("worker", rights)
    worker = secured.start_planner(**secure_kafka.settings_for("worker"))
    name = {"topic": "releases", TRANSACTION: "parts"}[kind]
    taken = next(one for one in rights if one[:2] == ("Write", kind) and name in one.name)
    secure_kafka.grant("worker", [right for right in rights if right != taken])
    secured.send(event for event in inserts(0, PEOPLE))
    secured.request()
    assert worker.wait(90) == 2, worker.log
    assert f"grant {taken}" in worker.log
    secure_kafka.grant("worker", rights)
    again = secured.start(**secure_kafka.settings_for("worker"))
    assert len(secured.await_releases(1, 90)) == 1
    secured.judge()
    assert again.stop() == 0


def test_topics_that_may_not_be_created_are_asked_for(secure_kafka: SecureKafka, table: str) -> None:
    rights = worker_rights(table, shards=SHARDS)
    secure_kafka.grant("worker", rights)
    ours = {f"SHOAL_{name}": text for name, text in secure_kafka.settings_for("worker").items()}
    settings = load_settings(ours, Path("/nonexistent/.env"))

    def come_in() -> None:
        asyncio.run(enter(settings, table, rights, checks_topics=True, shards=SHARDS))

    with pytest.raises(InputError, match=rf"grant Create on topic .*shoal\.{table}\.releases.*shoal\.{table}\.shards"):
        come_in()
    secure_kafka.grant("worker", [*rights, Right("Create", "topic", f"shoal.{table}.*")])
    come_in()
