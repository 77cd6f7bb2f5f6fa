"""A real broker that lets in only whom it knows: TLS, SASL and an authorizer, beside a plain listener for the test.

Who comes by the plain listener, the broker itself among them, may do everything. Everybody else may do what `grant`
grants them.
"""

import contextlib
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from deploy.local.kafka import BriefKafka
from deploy.local.ports import free_port
from shoal.streams.kafka.rights import GROUP, TOPIC, TRANSACTION, Right
from tests.support.root import ROOT
from tests.support.services.certificates import Certificates, make_certificates
from tests.support.services.services import Found

# One user for each role of the table of least rights, all with the same password.
USERS = ("worker", "producer", "requester", "consumer")
PASSWORD = "a password of the tests"
LISTENERS = ("SASL_SSL", "SASL_PLAINTEXT", "SSL")
_KINDS = {
    TOPIC: ResourceType.TOPIC,
    GROUP: ResourceType.GROUP,
    TRANSACTION: ResourceType.TRANSACTIONAL_ID,
}
_OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Create": AclOperation.CREATE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
}
_SECURITY = """\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={ca}
ssl.principal.mapping.rules=RULE:^CN=(.*?)$/$1/
listener.name.ssl.ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
"""
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


class SecureKafka(BriefKafka):
    """`at(listener)` is the address of a listener; `address` that of the plain one."""

    def __init__(self, folder: Path, certificates: Certificates) -> None:
        super().__init__(folder, heap_mb=384)
        self.certificates = certificates
        self._ports = {listener: free_port() for listener in LISTENERS}

    def at(self, listener: str) -> str:
        return f"127.0.0.1:{self._ports[listener]}"

    def settings(self, logs: Path) -> str:
        keystore = self.folder / "server.pem"
        keystore.write_bytes(self.certificates.server_key.read_bytes() + self.certificates.server.read_bytes())
        more = "".join(f",{name}://{self.at(name)}" for name in LISTENERS)
        lines = []
        for line in super().settings(logs).splitlines():
            is_address = line.startswith(("listeners=", "advertised.listeners="))
            lines.append(line + more if is_address else line)
        lines.append(_SECURITY.format(keystore=keystore, ca=self.certificates.ca))
        known = " ".join(f'user_{user}="{PASSWORD}"' for user in USERS)
        for listener in ("sasl_ssl", "sasl_plaintext"):
            jaas = {
                "plain": f"{_PLAIN} required {known};",
                "scram-sha-256": f"{_SCRAM} required;",
                "scram-sha-512": f"{_SCRAM} required;",
                # It takes tokens that nobody signed, which is for tests only.
                "oauthbearer": f'{_OAUTH} required unsecuredLoginStringClaim_sub="broker";',
            }
            lines += [f"listener.name.{listener}.{name}.sasl.jaas.config={text}" for name, text in jaas.items()]
        return "\n".join(lines)

    def format_options(self) -> list[str]:
        return [
            word
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for user in USERS
            for word in ("--add-scram", f"{mechanism}=[name={user},password={PASSWORD}]")
        ]

    # -- rights -------------------------------------------------------------------------------------------------------

    def settings_for(self, user: str, listener: str = "SASL_SSL", mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
        """The settings with which a client comes in as this user, without their prefix."""
        ours = self.certificates
        tls = {"KAFKA_SSL_CA": str(ours.ca)} if listener.endswith("SSL") else {}
        found = {"KAFKA": self.at(listener), "KAFKA_SECURITY_PROTOCOL": listener, **tls}
        if listener == "SSL":
            return {**found, "KAFKA_SSL_CERT": str(ours.client), "KAFKA_SSL_KEY": str(ours.client_key)}
        found["KAFKA_SASL_MECHANISM"] = mechanism
        if mechanism == "OAUTHBEARER":
            return found
        return {**found, "KAFKA_SASL_USERNAME": user, "KAFKA_SASL_PASSWORD": PASSWORD}

    def grant(self, user: str, rights: Iterable[Right]) -> None:
        """Grant a user exactly these rights; what it had before is taken away."""
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        everything = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, f"User:{user}", None, AclOperation.ANY,
            AclPermissionType.ANY,
        )  # fmt: skip
        for future in admin.delete_acls([everything]).values():
            future.result(10)
        bindings = [_binding(right, user) for right in rights]
        for future in admin.create_acls(bindings).values() if bindings else ():
            future.result(10)
        # They are in the broker's log now, and hold as soon as it has read them back.
        deadline = time.monotonic() + 10
        while _named(admin.describe_acls(everything).result(10)) != _named(bindings):
            assert time.monotonic() < deadline, "the rights did not take effect"
            time.sleep(0.02)


def documented(role: str, table: str, *, shards: bool = False) -> list[Right]:
    """What the tables of least rights in docs/operating.md grant a role; with `shards` also the second one."""
    page = (ROOT / "docs" / "operating.md").read_text()
    section = page.split("## Least rights")[1].split("\n## ")[0]
    plain, besides = section.split("In a table with shards, besides:")
    text, found = plain + besides * shards, []
    for who, operations, kind, names in re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", text, re.MULTILINE):
        if f"`{role}`" in who:
            found += [
                Right(operation, kind, name.replace("<table>", table))
                for operation in operations.split(", ")
                for name in re.findall(r"`(.+?)`", names)
            ]
    return found


@contextlib.contextmanager
def native_secure_kafka() -> Iterator[Found]:
    """A process of our own, with throw-away data. Raises Unavailable."""
    folder = Path(tempfile.mkdtemp(prefix="shoal-secure-kafka-"))
    service = SecureKafka(folder, make_certificates(folder / "certificates"))
    try:
        service.start()
        yield Found(service.address, "native", service)
    finally:
        service.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _named(bindings: Iterable[AclBinding]) -> set[tuple[str, str, str]]:
    return {(str(one.restype), one.name, str(one.operation)) for one in bindings}


def _binding(right: Right, user: str) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if right.name.endswith("*") else ResourcePatternType.LITERAL
    return AclBinding(
        _KINDS[right.kind], right.name.removesuffix("*"), pattern, f"User:{user}", "*", _OPERATIONS[right.operation],
        AclPermissionType.ALLOW,
    )  # fmt: skip
