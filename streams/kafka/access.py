"""How a client authenticates to Kafka: the one place that turns settings into arguments of aiokafka and Faust.

Every client is made with `client_options(servers)`, or with `faust_options(servers)`. Both give the addresses, the
security protocol, a TLS context and what SASL needs. A plain list of addresses means brokers that let everyone in.
"""

import ssl
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from shoal.streams.errors import InputError
from shoal.streams.kafka import bootstrap
from shoal.streams.kafka.token import EndpointToken, FileToken
from shoal.streams.settings import Brokers, Settings


def client_options(servers: Sequence[str]) -> dict[str, Any]:
    """The keyword arguments with which any client of aiokafka reaches these brokers. Raises InputError."""
    bootstrap.install()
    options: dict[str, Any] = {"bootstrap_servers": list(servers)}
    if not isinstance(servers, Brokers):
        return options
    settings = servers.settings
    options["security_protocol"] = settings.kafka_security_protocol
    if settings.kafka_security_protocol.endswith("SSL"):
        options["ssl_context"] = _tls(settings)
    if settings.kafka_security_protocol.startswith("SASL_"):
        options["sasl_mechanism"] = settings.kafka_sasl_mechanism
        if settings.kafka_sasl_mechanism == "OAUTHBEARER":
            options["sasl_oauth_token_provider"] = _token_provider(settings)
        else:
            options["sasl_plain_username"] = settings.kafka_sasl_username
            options["sasl_plain_password"] = _password(settings)
    return options


def faust_options(servers: Sequence[str]) -> dict[str, Any]:
    """The same for a Faust app. Raises InputError."""
    bootstrap.install()
    options: dict[str, Any] = {"broker": [f"kafka://{server}" for server in servers]}
    credentials = _credentials(servers.settings) if isinstance(servers, Brokers) else None
    return options if credentials is None else {**options, "broker_credentials": credentials}


def _credentials(settings: Settings) -> Any:
    # Here, since only the worker needs Faust, which takes half a second to import.
    from faust.auth import OAuthCredentials, SASLCredentials, SSLCredentials

    protocol = settings.kafka_security_protocol
    # Faust takes SASL credentials with a context as SASL_SSL, and those without one as SASL_PLAINTEXT.
    context = _tls(settings) if protocol.endswith("SSL") else None
    if protocol == "PLAINTEXT":
        return None
    if protocol == "SSL":
        return SSLCredentials(context)  # never with `cafile`: Faust 0.15.3 then fails
    if settings.kafka_sasl_mechanism == "OAUTHBEARER":
        return OAuthCredentials(oauth_cb=_token_provider(settings), ssl_context=context)
    return SASLCredentials(
        username=settings.kafka_sasl_username,
        password=_password(settings),
        mechanism=settings.kafka_sasl_mechanism,
        ssl_context=context,
    )


def _password(settings: Settings) -> str:
    assert settings.kafka_sasl_password is not None, "the settings were checked"
    return settings.kafka_sasl_password.get_secret_value()


@lru_cache(maxsize=4)
def _token_provider(settings: Settings) -> FileToken | EndpointToken:
    """One for all clients, so that they share a token as long as it is good."""
    if settings.kafka_oauth_token_file is not None:
        return FileToken(settings.kafka_oauth_token_file)
    assert settings.kafka_oauth_endpoint is not None, "the settings were checked"
    assert settings.kafka_oauth_client_id is not None, "the settings were checked"
    assert settings.kafka_oauth_client_secret is not None, "the settings were checked"
    return EndpointToken(
        settings.kafka_oauth_endpoint,
        settings.kafka_oauth_client_id,
        settings.kafka_oauth_client_secret.get_secret_value(),
        settings.kafka_oauth_scope,
    )


def _tls(settings: Settings) -> ssl.SSLContext:
    password = settings.kafka_ssl_key_password
    files = (settings.kafka_ssl_ca, settings.kafka_ssl_cert, settings.kafka_ssl_key)
    # Certificates are replaced while a worker runs: the next client takes the new ones.
    dates = tuple(None if path is None else _date(path) for path in files)
    return _make_tls(files, dates, None if password is None else password.get_secret_value())


@lru_cache(maxsize=4)
def _make_tls(
    files: tuple[Path | None, Path | None, Path | None],
    dates: tuple[float | None, ...],  # noqa: ARG001 - a part of the cache's key
    password: str | None,
) -> ssl.SSLContext:
    """The broker must show a certificate for its name, from SHOAL_KAFKA_SSL_CA or one the system trusts."""
    ca, certificate, key = files
    try:
        context = ssl.create_default_context(cafile=ca)
    except (ssl.SSLError, OSError):
        raise InputError(f"SHOAL_KAFKA_SSL_CA: {ca} has no certificates in PEM format") from None
    if certificate is not None:
        try:
            context.load_cert_chain(certificate, key, password or "")
        except (ssl.SSLError, OSError):
            raise InputError(
                f"SHOAL_KAFKA_SSL_CERT and SHOAL_KAFKA_SSL_KEY: {certificate} and {key} are not a certificate and its "
                "key in PEM format, or SHOAL_KAFKA_SSL_KEY_PASSWORD is not the key's"
            ) from None
    return context


def _date(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        raise InputError(f"{path}, which the settings name for Kafka, cannot be read") from None
