"""Any Kafka: every way in, the fewest rights, every compression, and topics that somebody else made."""

import asyncio
import base64
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from shoal.streams.cli import main
from shoal.streams.errors import InputError, ServiceError, StreamsError
from shoal.streams.kafka.entry import enter
from shoal.streams.kafka.rights import TOPIC, Right, source_rights, worker_rights
from shoal.streams.kafka.topic_rules import Remark
from shoal.streams.kafka.topics import Topics, ensure_topics
from shoal.streams.settings import Settings, load_settings
from tests.support.histories.debezium import record
from tests.support.services.secure_kafka import PASSWORD, SecureKafka, documented
from tests.support.services.table import Table, insert, inserts

NOWHERE = Path("/nonexistent/.env")
Open = Callable[..., Table]


@pytest.fixture
def secured(secure_kafka: SecureKafka, redis_url: str, tmp_path: Path, table: str) -> Iterator[Table]:
    """A table on the broker with an authorizer; what the test itself sends comes by the plain listener."""
    made = Table(secure_kafka.address, redis_url, tmp_path, table)
    asyncio.run(ensure_topics([secure_kafka.address], table, made.partitions))
    yield made
    made.close()


def _settings(**found: str) -> Settings:
    return load_settings({"SHOAL_CONNECT_S": "1", **{f"SHOAL_{name}": text for name, text in found.items()}}, NOWHERE)


def _enter(table: str, rights: list[Right], **settings: str) -> list[Remark]:
    return asyncio.run(enter(_settings(**settings), table, rights, checks_topics=True))[1]


def _enter_with_snapshots(table: str, **settings: str) -> list[Remark]:
    return asyncio.run(enter(_settings(**settings), table, [], checks_topics=True, has_snapshots=True))[1]


def _refusal(table: str, rights: list[Right], **settings: str) -> StreamsError:
    with pytest.raises(StreamsError) as caught:
        _enter(table, rights, **settings)
    assert PASSWORD not in str(caught.value)
    return caught.value


def test_the_worker_comes_in_by_every_protocol_and_mechanism(secure_kafka: SecureKafka, secured: Table) -> None:
    rights = worker_rights(secured.name)
    secure_kafka.grant("worker", rights)
    secure_kafka.grant("shoal", rights)  # the name in the client's certificate
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        for listener in ("SASL_SSL", "SASL_PLAINTEXT"):
            assert _enter(secured.name, rights, **secure_kafka.settings_for("worker", listener, mechanism)) == []
    assert _enter(secured.name, rights, **secure_kafka.settings_for("", "SSL")) == []


def test_who_is_not_let_in_is_told_why(secure_kafka: SecureKafka, secured: Table) -> None:
    ours = secure_kafka.settings_for("worker")
    certificates = secure_kafka.certificates

    def said(exit_code: int, **changes: str) -> str:
        refusal = _refusal(secured.name, [], **{name: text for name, text in {**ours, **changes}.items() if text})
        assert refusal.exit_code == exit_code
        return str(refusal)

    none_of_sasl = {name: "" for name in ours if "SASL" in name}
    assert "check SHOAL_KAFKA_SASL_USERNAME" in said(2, KAFKA_SASL_PASSWORD="wrong")
    assert "set SHOAL_KAFKA_SSL_CA" in said(2, KAFKA_SSL_CA=str(certificates.stranger_ca))
    assert "does not ask who this is" in said(
        2, KAFKA=secure_kafka.address, KAFKA_SECURITY_PROTOCOL="SASL_PLAINTEXT", KAFKA_SSL_CA=""
    )
    for listener, protocol in (("SASL_SSL", "PLAINTEXT"), ("SASL_PLAINTEXT", "PLAINTEXT"), ("SSL", "SSL")):
        wrong = {"KAFKA": secure_kafka.at(listener), "KAFKA_SECURITY_PROTOCOL": protocol, **none_of_sasl}
        if protocol == "PLAINTEXT":
            wrong["KAFKA_SSL_CA"] = ""
        assert f"SHOAL_KAFKA_SECURITY_PROTOCOL than {protocol}" in said(3, **wrong)
    assert "certificate and its key" in said(
        2, KAFKA_SSL_CERT=str(certificates.client), KAFKA_SSL_KEY=str(certificates.server_key)
    )
    assert "PEM" in said(2, KAFKA_SSL_CA=str(certificates.client_key))


def test_the_rights_in_the_docs_are_enough_for_everyone(
    secure_kafka: SecureKafka, secured: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    roles = {
        "worker": "shoal worker", "producer": "shoal produce", "requester": "shoal release",
        "consumer": "shoal releases",
    }  # fmt: skip
    for user, role in roles.items():
        rights = documented(role, secured.name)
        assert rights
        secure_kafka.grant(user, rights)
    worker = secured.start_planner(**secure_kafka.settings_for("worker"))
    file = secured.folder / "events.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in inserts(0, 60)))

    def run(user: str, *command: str) -> str:
        for name, text in secured.environment(**secure_kafka.settings_for(user)).items():
            monkeypatch.setenv(name, text)
        assert main(list(command)) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    assert "63 events sent" in run("producer", "produce", str(secured.policy_path), str(file))
    run("requester", "release")
    assert len(secured.await_releases(1)) == 1
    assert "1" in run("consumer", "releases")
    secured.await_dead_letters(3)
    assert worker.stop() == 0
    secured.wipe()
    rebuilt = secured.run("rebuild", **secure_kafka.settings_for("worker"))
    assert rebuilt.returncode == 0, rebuilt.stderr


def test_the_rights_in_the_docs_are_enough_for_a_source_and_a_missing_one_is_named(
    secure_kafka: SecureKafka, secured: Table
) -> None:
    topic = f"{secured.name}.public.patient"
    admin = AdminClient({"bootstrap.servers": secure_kafka.address})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    key, value = record("c", {"id": 1}, {"id": 1, "age": 3, "sex": "male", "zip": "z1", "code": "flu"})
    secured._send(topic, value, key, 0)
    secured.flush()
    columns = {name: {"column": name} for name in ("age", "sex", "zip")}
    mapping = {"people": {"topic": topic, "id": "id"}, "attributes": columns, "sensitive": {"column": "code"}}
    path = secured.folder / "mapping.json"
    path.write_text(json.dumps(mapping))
    needed = [Right("Read", TOPIC, topic), *documented("shoal source", secured.name)]
    assert sorted(needed) == sorted(source_rights(secured.name, [topic])), "the docs and the program ask for the same"

    def run() -> "subprocess.CompletedProcess[str]":
        command = ("source", str(secured.policy_path), str(path), "--stop-after", "0")
        return secured.run(*command, **secure_kafka.settings_for("producer"))

    for right in needed:
        secure_kafka.grant("producer", [other for other in needed if other != right])
        refused = run()
        assert refused.returncode == 2
        assert str(right) in refused.stderr
    secure_kafka.grant("producer", needed)
    done = run()
    assert done.returncode == 0, done.stderr
    assert sum(len(secured.read(secured.topics.events, number)) for number in range(secured.partitions)) == 1


def test_with_one_right_less_the_sentence_names_it(
    secure_kafka: SecureKafka, secured: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rights = documented("shoal worker", secured.name)
    assert sorted(rights) == sorted(worker_rights(secured.name)), "the docs and the program ask for the same"
    for right in rights:
        secure_kafka.grant("worker", [other for other in rights if other != right])
        refusal = _refusal(secured.name, rights, **secure_kafka.settings_for("worker"))
        assert isinstance(refusal, InputError)
        assert str(right) in str(refusal)
        assert "user worker" in str(refusal)
    file = secured.folder / "events.jsonl"
    file.write_text(json.dumps(insert(1)) + '\n{"op": "release"}\n')

    def names(right: Right, user: str, *command: str) -> bool:
        """Whether the command, run by that user, is refused for want of that right."""
        for name, text in secured.environment(**secure_kafka.settings_for(user)).items():
            monkeypatch.setenv(name, text)
        return main(list(command)) == 2 and str(right) in capsys.readouterr().err

    commands = {
        "producer": ("shoal produce", "produce", str(secured.policy_path), str(file)),
        "requester": ("shoal release", "release"),
        "consumer": ("shoal releases", "releases"),
    }
    for user, (role, *command) in commands.items():
        secure_kafka.grant(user, [])
        (needed,) = documented(role, secured.name)
        assert names(needed, user, *command)
    secure_kafka.grant("producer", documented("shoal produce", secured.name))
    needed = Right("Write", "topic", Topics(secured.name).triggers)  # for the line that asks for a release
    assert names(needed, "producer", "produce", str(secured.policy_path), str(file))


def test_a_topic_that_may_not_be_created_is_asked_for(secure_kafka: SecureKafka, table: str) -> None:
    rights = worker_rights(table)
    secure_kafka.grant("worker", rights)
    refusal = _refusal(table, rights, **secure_kafka.settings_for("worker"))
    assert f"grant Create on topic shoal.{table}.dead-letter, shoal.{table}.events" in str(refusal)
    secure_kafka.grant("worker", [*rights, Right("Create", "topic", f"shoal.{table}.*")])
    assert _enter(table, rights, **secure_kafka.settings_for("worker")) == []


def test_a_right_that_is_taken_away_ends_the_worker_with_a_sentence(secure_kafka: SecureKafka, secured: Table) -> None:
    rights = worker_rights(secured.name)
    secure_kafka.grant("worker", rights)
    worker = secured.start_planner(**secure_kafka.settings_for("worker"))
    taken = Right("Write", "topic", Topics(secured.name).releases)
    secure_kafka.grant("worker", [right for right in rights if right != taken])
    secured.send([insert(number) for number in range(20)])
    secured.request()
    assert worker.wait(40) == 2
    assert f"grant {taken}" in worker.log


# -- OAUTHBEARER ------------------------------------------------------------------------------------------------------


def _token(user: str) -> str:
    """A token that nobody signed: what the broker of the tests takes."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": user, "iat": now, "exp": now + 600})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."


class _Endpoint(BaseHTTPRequestHandler):
    """A token endpoint for one client."""

    asked: list[str]

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        is_known = self.headers["Authorization"] == "Basic " + base64.b64encode(b"ward:its+secret").decode()
        self.asked.append(form)
        answer = json.dumps({"access_token": _token("worker"), "expires_in": 600}).encode()
        self.send_response(200 if is_known else 401)
        self.end_headers()
        self.wfile.write(answer if is_known else b"{}")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    server = HTTPServer(("127.0.0.1", 0), type("Endpoint", (_Endpoint,), {"asked": asked}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/token", asked
    server.shutdown()
    server.server_close()


def test_a_token_comes_from_an_endpoint_or_a_file(
    secure_kafka: SecureKafka, secured: Table, endpoint: tuple[str, list[str]], tmp_path: Path
) -> None:
    rights = worker_rights(secured.name)
    secure_kafka.grant("worker", rights)
    listener = secure_kafka.settings_for("", "SASL_PLAINTEXT", "OAUTHBEARER")
    client = {"KAFKA_OAUTH_ENDPOINT": endpoint[0], "KAFKA_OAUTH_CLIENT_ID": "ward", "KAFKA_OAUTH_SCOPE": "kafka"}
    assert _enter(secured.name, rights, **listener, **client, KAFKA_OAUTH_CLIENT_SECRET="its secret") == []
    assert endpoint[1] == ["grant_type=client_credentials&scope=kafka"], "one token serves all clients"
    refusal = _refusal(secured.name, rights, **listener, **client, KAFKA_OAUTH_CLIENT_SECRET="wrong")
    assert "check SHOAL_KAFKA_OAUTH_CLIENT_ID" in str(refusal)
    file = tmp_path / "token"
    refusal = _refusal(secured.name, rights, **listener, KAFKA_OAUTH_TOKEN_FILE=str(file))
    assert f"{file} has no token" in str(refusal)
    file.write_text("no token at all")
    refusal = _refusal(secured.name, rights, **listener, KAFKA_OAUTH_TOKEN_FILE=str(file))
    assert "does not accept the token" in str(refusal)
    file.write_text(_token("worker") + "\n")
    # Faust, too, comes in by it.
    assert secured.start_planner(**listener, KAFKA_OAUTH_TOKEN_FILE=str(file)).stop() == 0


# -- what others do to topics -----------------------------------------------------------------------------------------


def test_a_worker_with_a_client_certificate_unpacks_events_whatever_packed_them(
    secure_kafka: SecureKafka, secured: Table
) -> None:
    secure_kafka.grant("shoal", worker_rights(secured.name))
    worker = secured.start_planner(**secure_kafka.settings_for("", "SSL"))
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        producer = Producer({"bootstrap.servers": secure_kafka.address, "compression.type": codec, "log_level": 0})
        for person in range(10 * number, 10 * number + 10):
            event = insert(person)
            producer.produce(
                Topics(secured.name).events, json.dumps(event), event["id"], partition=secured.home(event["id"])
            )
        assert producer.flush(20) == 0
    (release,) = secured.release()
    found = json.loads(release.manifest)
    assert found["rows"] + found["withheld"] == 50
    assert worker.stop() == 0


@pytest.mark.parametrize(
    ("topic", "config", "words"),
    [
        ("events", {"cleanup.policy": "compact"}, "is compacted"),
        ("releases", {"cleanup.policy": "compact,delete"}, "is compacted"),
        ("external", {"retention.ms": "604800000"}, "deletes records after a while (retention.ms is 604800000)"),
        ("events", {"retention.bytes": "1000000"}, "retention.bytes is 1000000"),
        ("triggers", {"min.insync.replicas": "2"}, "can never be written"),
    ],
)
def test_a_topic_that_loses_records_is_refused(
    secure_kafka: SecureKafka, table: str, topic: str, config: dict[str, str], words: str
) -> None:
    _create(secure_kafka, f"shoal.{table}.{topic}", config)
    refusal = _refusal(table, [], KAFKA=secure_kafka.address)
    assert f"topic shoal.{table}.{topic} " in str(refusal)
    assert words in str(refusal)


def test_where_there_are_snapshots_events_may_be_deleted_after_a_while_and_releases_may_not(
    secure_kafka: SecureKafka, table: str
) -> None:
    topics = Topics(table)
    for name in (topics.events, topics.external):
        _create(secure_kafka, name, {"retention.ms": "604800000"})
    remarks = _enter_with_snapshots(table, KAFKA=secure_kafka.address, REPLICATION="1")
    assert {(remark.topic, remark.setting) for remark in remarks} == {
        (topics.events, "retention.ms"),
        (topics.external, "retention.ms"),
    }
    assert "or let the policy want snapshots" in str(_refusal(table, [], KAFKA=secure_kafka.address))
    other = f"{table}-2"
    _create(secure_kafka, Topics(other).releases, {"retention.ms": "604800000"})
    with pytest.raises(InputError, match=r"releases deletes records after a while .* set it to -1$"):
        _enter_with_snapshots(other, KAFKA=secure_kafka.address)


def test_what_may_go_wrong_with_a_topic_is_remarked_upon(secure_kafka: SecureKafka, table: str) -> None:
    topics = Topics(table)
    _create(secure_kafka, topics.dead_letter, {"max.message.bytes": "1000", "retention.ms": "1000"})
    _create(secure_kafka, topics.releases, {"max.message.bytes": "1000"})
    remarks = _enter(table, [], KAFKA=secure_kafka.address, REPLICATION="1")
    assert {(remark.topic, remark.setting) for remark in remarks} == {
        (topics.dead_letter, "max.message.bytes"),
        (topics.dead_letter, "retention.ms"),
        (topics.releases, "max.message.bytes"),
    }
    found = _enter(table, [], KAFKA=secure_kafka.address, REPLICATION="3")
    assert sum(remark.setting == "replication" for remark in found) == 5


def test_without_kafka_the_sentence_says_to_start_it(table: str) -> None:
    refusal = _refusal(table, [], KAFKA="127.0.0.1:9")
    assert isinstance(refusal, ServiceError)
    assert "start it" in str(refusal)


def _create(kafka: SecureKafka, name: str, config: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0})
    for future in admin.create_topics([NewTopic(name, 1, 1, config=config)]).values():
        future.result(10)
