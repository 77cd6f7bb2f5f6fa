"""Any Redis: users, TLS, Sentinels, a Cluster; and what the worker says, or waits for, when something is wrong."""

import asyncio
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.crc import key_slot

from deploy.local.ports import free_port
from shoal.streams.errors import InputError, ServiceError, StreamsError
from shoal.streams.store.address import Access
from shoal.streams.store.encryption import make_cipher
from shoal.streams.store.store import Store
from tests.support.root import ROOT
from tests.support.services.any_redis import (
    ADMIN_PASSWORD,
    OtherRedis,
    SentinelServer,
    cluster_port,
    join,
    move_slot,
    tls_lines,
)
from tests.support.services.certificates import Certificates, make_certificates
from tests.support.services.table import Table, await_that, insert

PASSWORD = "the table's own password"


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path / "certificates")


@contextlib.contextmanager
def _table(kafka: str, redis: str, folder: Path, name: str) -> Iterator[Table]:
    made = Table(kafka, redis, folder, name)
    try:
        yield made
    finally:
        made.close()


def _documented() -> list[str]:
    """The commands that docs/operating.md says a user needs."""
    section = (ROOT / "docs" / "operating.md").read_text().split("## Any Redis")[1].split("\n## ")[0]
    found = re.findall(r"\+[a-z|]+", section.split("```")[1])
    assert len(found) > 20
    return found


def _connect(url: str, table: str, access: Access | None = None, within_s: float = 0.5) -> list[str] | None:
    async def connect() -> list[str] | None:
        store = Store(url, table, make_cipher(None), access)
        try:
            await store.connect(within_s)
            return await store.check_server()
        finally:
            await store.close()

    return asyncio.run(connect())


def _refusal(url: str, table: str, access: Access | None = None) -> StreamsError:
    with pytest.raises(StreamsError) as caught:
        _connect(url, table, access)
    assert PASSWORD not in str(caught.value)
    return caught.value


def test_a_worker_runs_with_tls_a_certificate_and_the_commands_in_the_docs(
    kafka: str, table: str, tmp_path: Path, certificates: Certificates
) -> None:
    port = free_port()
    lines = [
        *tls_lines(certificates, port),
        f'user admin on >"{ADMIN_PASSWORD}" ~* &* +@all',
        f'user ward on >"{PASSWORD}" "~{{shoal:{table}}}:*" -@all {" ".join(_documented())}',
        "user default off",
    ]
    tls = {
        "ssl": True, "ssl_ca_certs": str(certificates.ca), "ssl_certfile": str(certificates.client),
        "ssl_keyfile": str(certificates.client_key),
    }  # fmt: skip
    access = Access("ward", PASSWORD, None, None, certificates.ca, certificates.client, certificates.client_key)
    url = f"rediss://127.0.0.1:{port}/0"
    secret = tmp_path / "password"
    secret.write_text(PASSWORD + "\n")
    with OtherRedis(tmp_path / "redis", lines, port) as server, _table(kafka, url, tmp_path, table) as made:
        worker = made.start_planner(
            REDIS_USERNAME="ward", REDIS_PASSWORD_FILE=str(secret), REDIS_SSL_CA=str(certificates.ca),
            REDIS_SSL_CERT=str(certificates.client), REDIS_SSL_KEY=str(certificates.client_key),
        )  # fmt: skip
        assert "redis.unchecked" in worker.log, "CONFIG is not among them"
        made.send([insert(number) for number in range(30)])
        assert len(made.release()) == 1
        assert worker.stop() == 0

        admin = server.client(username="admin", password=ADMIN_PASSWORD, **tls)
        admin.unlink(f"{{shoal:{table}}}:meta")
        rebuilt = made.run(
            "rebuild", REDIS_USERNAME="ward", REDIS_PASSWORD_FILE=str(secret), REDIS_SSL_CA=str(certificates.ca),
            REDIS_SSL_CERT=str(certificates.client), REDIS_SSL_KEY=str(certificates.client_key),
        )  # fmt: skip
        assert rebuilt.returncode == 0, rebuilt.stderr
        alone = {"+ping", "+evalsha", "+script|load", "+unlink", "+multi", "+exec"}  # nothing else is tried without it
        for command in alone:
            admin.execute_command("ACL SETUSER", "ward", "-" + command[1:])
            refusal = _refusal(url, table, access)
            assert isinstance(refusal, InputError)
            assert command[1:] in str(refusal)
            admin.execute_command("ACL SETUSER", "ward", command)
        others = set(_documented()) - alone
        admin.execute_command("ACL SETUSER", "ward", *("-" + command[1:] for command in others))
        assert set(re.findall(r"\+[a-z|]+", str(_refusal(url, table, access)))) == others
        admin.execute_command("ACL SETUSER", "ward", *others)
        admin.execute_command("ACL SETUSER", "ward", "resetkeys", "~another")
        assert f"~{{shoal:{table}}}:*" in str(_refusal(url, table, access))
        admin.execute_command("ACL SETUSER", "ward", "allkeys", "+config|get")
        assert _connect(url, table, access) == [], "with CONFIG GET its durability is known"

        assert "SHOAL_REDIS_PASSWORD" in str(_refusal(url, table, Access(**{**vars(access), "password": "wrong"})))
        assert "SHOAL_REDIS_PASSWORD" in str(_refusal(f"{url}?password=x", table, _only_tls(access)))
        stranger = Access(**{**vars(access), "ca": certificates.stranger_ca})
        assert "SHOAL_REDIS_SSL_CA" in str(_refusal(url, table, stranger))
        assert "TLS" in str(_refusal(url, table, Access("ward", PASSWORD, ca=certificates.ca)))
        refusal = _refusal(f"redis://ward:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}/0", table)
        assert "if the server speaks TLS" in str(refusal)


def _only_tls(access: Access) -> Access:
    return Access(ca=access.ca, certificate=access.certificate, key=access.key)


def test_a_full_memory_is_waited_out(kafka: str, table: str, tmp_path: Path) -> None:
    with OtherRedis(tmp_path / "redis") as server, _table(kafka, server.address, tmp_path, table) as made:
        worker = made.start_planner()
        made.send([insert(number) for number in range(20)])
        made.release()
        admin = server.client()
        admin.config_set("maxmemory", 1)
        made.send([insert(number) for number in range(20, 40)])
        made.request()
        worker.await_log("OutOfMemoryError")
        refusal = _refusal(server.address, table)
        assert isinstance(refusal, ServiceError)
        assert "is full" in str(refusal)
        assert worker.process.poll() is None
        admin.config_set("maxmemory", 0)
        assert len(made.await_releases(2)) == 2
        made.judge()
        assert worker.stop() == 0


def test_a_failover_is_waited_out_and_a_replica_is_no_primary(kafka: str, table: str, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        primary = stack.enter_context(OtherRedis(tmp_path / "primary"))
        replica = stack.enter_context(OtherRedis(tmp_path / "replica", [f"replicaof 127.0.0.1 {primary.port}"]))
        sentinel = stack.enter_context(SentinelServer(tmp_path / "sentinel", primary, "ward"))
        url = f"redis+sentinel://127.0.0.1:9,{sentinel.where}/ward/0"
        watched = sentinel.client()
        await_that(lambda: len(watched.execute_command("SENTINEL REPLICAS", "ward")) == 1, 20)
        assert "a replica" in str(_refusal(replica.address, table))
        assert "SHOAL_REDIS" in str(_refusal(f"redis+sentinel://{sentinel.where}/nobody", table))

        made = stack.enter_context(_table(kafka, url, tmp_path, table))
        worker = made.start_planner()
        made.send([insert(number) for number in range(30)])
        made.release()
        assert primary.client().execute_command("WAIT", 1, 5000) == 1
        primary.kill()
        made.send([insert(number) for number in range(30, 60)])
        made.request()
        assert len(made.await_releases(2)) == 2
        made.judge()
        assert replica.client().exists(f"{{shoal:{table}}}:meta")
        assert worker.stop() == 0


def test_a_table_lives_on_one_node_of_a_cluster_and_moves_with_its_slot(kafka: str, table: str, tmp_path: Path) -> None:
    enabled = ["cluster-enabled yes", "cluster-node-timeout 2000"]
    with contextlib.ExitStack() as stack:
        nodes = [
            stack.enter_context(OtherRedis(tmp_path / f"node-{number}", enabled, cluster_port())) for number in range(3)
        ]
        join(nodes)
        slot = key_slot(f"{{shoal:{table}}}:".encode())
        home = 3 * slot // 16_384
        away = (home + 1) % 3
        assert "redis+cluster://" in str(_refusal(nodes[away].address, table))

        url = f"redis+cluster://127.0.0.1:9,{nodes[away].where}"
        made = stack.enter_context(_table(kafka, url, tmp_path, table))
        worker = made.start_planner()
        made.send([insert(number) for number in range(30)])
        made.release()
        assert [node.client().dbsize() > 0 for node in nodes] == [number == home for number in range(3)]
        assert move_slot(slot, nodes[home], nodes[away], [nodes[3 - home - away]]) > 5
        made.send([insert(number) for number in range(30, 60)])
        made.request()
        assert len(made.await_releases(2)) == 2
        made.judge()
        assert [node.client().dbsize() > 0 for node in nodes] == [number == away for number in range(3)]
        assert worker.stop() == 0
