"""Why Kafka cannot be reached: connects once more to learn the reason, which clients only log.

aiokafka's clients answer every failure to connect with the same error. One bare connection tells a broker that is down
from a wrong password, an untrusted certificate, and a wrong security protocol.
"""

import ssl
from collections.abc import Sequence

from aiokafka.conn import create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

from shoal.streams.errors import InputError, ServiceError, StreamsError
from shoal.streams.kafka.access import client_options
from shoal.streams.settings import Brokers, Settings

_TRY_MS = 5_000
_RIGHTS = (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)


def is_refusal(error: BaseException) -> bool:
    """Whether a right was missing."""
    return isinstance(error, _RIGHTS)


def unreachable(servers: Sequence[str]) -> ServiceError:
    return ServiceError(f"Kafka cannot be reached at {', '.join(servers)}: start it, or set SHOAL_KAFKA")


async def why_refused(servers: Sequence[str], *, guesses: bool = False) -> StreamsError | None:
    """Why the brokers do not let this client in, None if it is not known that they do not: they may just be down.

    A broker that takes a connection and ends it may be stopping, or want another protocol. With `guesses` that is said,
    as ServiceError; what the broker says itself is an InputError.
    """
    options = client_options(servers)
    del options["bootstrap_servers"]
    reason: StreamsError | None = None
    settings = servers.settings if isinstance(servers, Brokers) else None
    for server in servers:
        host, _, port = server.rpartition(":")
        try:
            connection = await create_conn(host.strip("[]"), int(port), request_timeout_ms=_TRY_MS, **options)
            try:
                # A listener that wants a password answers the first request, about versions, and not the second.
                await connection.send(MetadataRequest([]))
            finally:
                connection.close()
        except (KafkaError, OSError, TimeoutError) as error:
            reason = reason or _reason(error, server, settings)
            if guesses and isinstance(error, KafkaConnectionError | ConnectionError):
                is_down = isinstance(error, ConnectionRefusedError)
                reason = reason or (None if is_down else _wrong_protocol(server, settings))
        else:
            return None
    return reason


def _reason(error: BaseException, server: str, settings: Settings | None) -> InputError | None:
    protocol = "PLAINTEXT" if settings is None else settings.kafka_security_protocol
    if isinstance(error, ssl.SSLCertVerificationError):
        return InputError(
            f"the certificate of Kafka at {server} is not accepted ({error.verify_message}): set SHOAL_KAFKA_SSL_CA to "
            "the certificate of the authority that signed it, and SHOAL_KAFKA to the name that it is for"
        )
    if isinstance(error, ssl.SSLError):
        return InputError(
            f"Kafka at {server} does not agree on TLS: SHOAL_KAFKA_SECURITY_PROTOCOL is {protocol}, and it may want "
            "another one, or a client certificate in SHOAL_KAFKA_SSL_CERT and SHOAL_KAFKA_SSL_KEY"
        )
    if settings is not None and isinstance(error, UnsupportedSaslMechanismError):
        return InputError(
            f"Kafka at {server} does not take the mechanism {settings.kafka_sasl_mechanism}: set "
            "SHOAL_KAFKA_SASL_MECHANISM to one that its listener has"
        )
    if settings is not None and isinstance(error, AuthenticationFailedError | SaslAuthenticationFailed):
        if settings.kafka_sasl_mechanism == "OAUTHBEARER":
            # Ours says what is wrong with the token's source; the broker's may quote the token.
            ours = str(error) if isinstance(error, AuthenticationFailedError) else "it does not accept the token"
            return InputError(f"Kafka at {server} does not let this client in: {ours}")
        return InputError(
            f"Kafka at {server} does not let user {settings.kafka_sasl_username} in: check "
            "SHOAL_KAFKA_SASL_USERNAME, SHOAL_KAFKA_SASL_PASSWORD and SHOAL_KAFKA_SASL_MECHANISM"
        )
    if isinstance(error, IllegalSaslStateError):
        return InputError(
            f"Kafka at {server} does not ask who this is: set SHOAL_KAFKA_SECURITY_PROTOCOL to PLAINTEXT or SSL, or "
            "SHOAL_KAFKA to another of its listeners"
        )
    return None


def _wrong_protocol(server: str, settings: Settings | None) -> ServiceError:
    protocol = "PLAINTEXT" if settings is None else settings.kafka_security_protocol
    certificate = ", or a client certificate in SHOAL_KAFKA_SSL_CERT" if protocol.endswith("SSL") else ""
    return ServiceError(
        f"Kafka at {server} ends connections at once: it may be starting, or want another "
        f"SHOAL_KAFKA_SECURITY_PROTOCOL than {protocol}{certificate}"
    )
