"""The one place that says how Kafka lets a client in: the same for aiokafka and for Faust, and refused in words."""

import ssl
from pathlib import Path

import pytest
from faust.auth import OAuthCredentials, SASLCredentials, SSLCredentials

from shoal.streams.errors import InputError
from shoal.streams.kafka.access import client_options, faust_options
from shoal.streams.kafka.token import FileToken
from shoal.streams.settings import Brokers, load_settings
from tests.support.services.certificates import Certificates, make_certificates

NOWHERE = Path("/nonexistent/.env")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def servers(**settings: object) -> Brokers:
    found = {f"SHOAL_KAFKA_{name}": str(value) for name, value in settings.items()}
    return load_settings({"SHOAL_KAFKA": "a:1, b:2", **found}, NOWHERE).kafka_servers


def test_brokers_that_let_everyone_in_need_only_their_addresses() -> None:
    assert client_options(["a:1"]) == {"bootstrap_servers": ["a:1"]}
    assert client_options(servers()) == {"bootstrap_servers": ["a:1", "b:2"], "security_protocol": "PLAINTEXT"}
    assert faust_options(servers()) == {"broker": ["kafka://a:1", "kafka://b:2"]}


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_password_goes_to_both_clients(protocol: str, mechanism: str) -> None:
    brokers = servers(
        SECURITY_PROTOCOL=protocol, SASL_MECHANISM=mechanism, SASL_USERNAME="ward", SASL_PASSWORD="a password"
    )
    options = client_options(brokers)
    assert options["security_protocol"] == protocol
    assert options["sasl_mechanism"] == mechanism
    assert (options["sasl_plain_username"], options["sasl_plain_password"]) == ("ward", "a password")
    assert ("ssl_context" in options) == (protocol == "SASL_SSL")
    credentials = faust_options(brokers)["broker_credentials"]
    assert isinstance(credentials, SASLCredentials)
    assert (credentials.protocol.value, credentials.mechanism.value) == (protocol, mechanism)
    assert (credentials.username, credentials.password) == ("ward", "a password")
    assert credentials.ssl_context is options.get("ssl_context")


def test_tls_checks_the_brokers_name_and_shows_the_clients_certificate(certificates: Certificates) -> None:
    brokers = servers(
        SECURITY_PROTOCOL="SSL", SSL_CA=certificates.ca, SSL_CERT=certificates.client, SSL_KEY=certificates.client_key
    )
    context = client_options(brokers)["ssl_context"]
    assert context.check_hostname
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert [dict(pair for part in one["subject"] for pair in part) for one in context.get_ca_certs()] == [
        {"commonName": "authority"}
    ]
    credentials = faust_options(brokers)["broker_credentials"]
    assert isinstance(credentials, SSLCredentials)
    assert credentials.context is context


def test_a_certificate_that_was_replaced_is_read_again(certificates: Certificates, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes(certificates.ca.read_bytes())
    brokers = servers(SECURITY_PROTOCOL="SSL", SSL_CA=ca)
    before = client_options(brokers)["ssl_context"]
    assert client_options(brokers)["ssl_context"] is before
    ca.write_bytes(certificates.stranger_ca.read_bytes())
    after = client_options(brokers)["ssl_context"]
    assert before.get_ca_certs() != after.get_ca_certs()


def test_a_token_goes_to_both_clients_from_one_source(tmp_path: Path) -> None:
    brokers = servers(SECURITY_PROTOCOL="SASL_SSL", SASL_MECHANISM="OAUTHBEARER", OAUTH_TOKEN_FILE=tmp_path / "token")
    provider = client_options(brokers)["sasl_oauth_token_provider"]
    assert isinstance(provider, FileToken)
    credentials = faust_options(brokers)["broker_credentials"]
    assert isinstance(credentials, OAuthCredentials)
    assert credentials.oauth_cb is provider
    assert credentials.protocol.value == "SASL_SSL"


async def test_a_token_file_is_read_at_every_login(tmp_path: Path) -> None:
    file = tmp_path / "token"
    provider = FileToken(file)
    for token in ("first", "second"):
        file.write_text(token + "\n")
        assert await provider.token() == token


@pytest.mark.parametrize("name", ["SSL_CA", "SSL_CERT"])
def test_a_file_that_is_missing_is_named(name: str, certificates: Certificates) -> None:
    files = {"SSL_CERT": certificates.client, "SSL_KEY": certificates.client_key, name: "/nonexistent/canary.pem"}
    with pytest.raises(InputError, match=r"canary\.pem"):
        client_options(servers(SECURITY_PROTOCOL="SSL", **files))
