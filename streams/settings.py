"""The settings: read once from the environment into one frozen object, with every problem reported together.

A setting is the environment variable `SHOAL_<NAME>`, or a line of a file `.env` in the working folder; the environment
wins (docs/contract.md, "Settings"). An unknown name that begins with `SHOAL_` is refused: a privacy setting must not be
ignored because it is misspelt. A secret may also stand in a file that `SHOAL_<NAME>_FILE` names, as container platforms
hand it over, so that it is in no environment.
"""

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from shoal.streams.environment import read_dotenv, read_secret
from shoal.streams.errors import InputError

PREFIX = "SHOAL_"

# Read elsewhere: by the crash points of the fault tests and by the test suite.
FOREIGN = frozenset({"SHOAL_CRASH_AT", "SHOAL_REQUIRE_SERVICES", "SHOAL_TEST_KAFKA", "SHOAL_TEST_REDIS"})

_SCHEMES = tuple(
    f"{scheme}://"
    for scheme in (
        "redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster",
    )
)  # fmt: skip
# A guess at the key can be tested against what is published, as fast as hashes are computed. Sixteen random letters or
# digits are beyond that. A program cannot tell what is random, but it can refuse what is not.
SHORTEST_KEY = 16
FEWEST_CHARACTERS = 8
# Written with a password inside, so they may stand in a file as secrets may.
_WITH_PASSWORD = frozenset({"redis"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_FILE = "_file"

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


class SettingsError(InputError):
    """One or more settings are wrong. The message lists all of them, and no secret."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("the settings are wrong:\n  " + "\n  ".join(problems) if len(problems) > 1 else problems[0])
        self.problems = tuple(problems)


class Settings(BaseModel):
    """Every setting with its default. The field `web_port` is the variable SHOAL_WEB_PORT, and so on."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    kafka: str = "localhost:9092"
    kafka_security_protocol: Protocol = "PLAINTEXT"
    kafka_sasl_mechanism: Mechanism | None = None
    kafka_sasl_username: str | None = None
    kafka_sasl_password: SecretStr | None = None
    kafka_ssl_ca: Path | None = None
    kafka_ssl_cert: Path | None = None
    kafka_ssl_key: Path | None = None
    kafka_ssl_key_password: SecretStr | None = None
    kafka_oauth_token_file: Path | None = None  # read again at every login, for tokens are replaced
    kafka_oauth_endpoint: str | None = None
    kafka_oauth_client_id: str | None = None
    kafka_oauth_client_secret: SecretStr | None = None
    kafka_oauth_scope: str | None = None
    redis: str = Field(default="redis://localhost:6379/0", repr=False)  # it may have a password
    redis_username: str | None = None
    redis_password: SecretStr | None = None
    redis_sentinel_username: str | None = None
    redis_sentinel_password: SecretStr | None = None
    redis_ssl_ca: Path | None = None
    redis_ssl_cert: Path | None = None
    redis_ssl_key: Path | None = None
    schema_registry_url: str | None = None
    schema_registry_username: str | None = None
    schema_registry_password: SecretStr | None = None
    schema_registry_ssl_ca: Path | None = None
    policy: Path | None = None
    key: SecretStr | None = None
    state_key: SecretStr | None = None
    web_bind: str = "127.0.0.1"
    web_port: Annotated[int, Field(ge=0, le=65535)] = 6066
    page: bool = True
    instance: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")] | None = None  # None: host and port
    partitions: Annotated[int, Field(ge=1, le=10_000)] = 8
    replication: Annotated[int, Field(ge=1, le=100)] | None = None  # None: the broker's own default
    batch: Annotated[int, Field(ge=1, le=1_000_000)] = 4_000
    max_record: Annotated[int, Field(ge=1_024, le=1 << 30)] = 1 << 20
    session_s: Annotated[float, Field(ge=1, le=600)] = 10.0
    connect_s: Annotated[float, Field(gt=0, le=600)] = 15.0
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    embedded: bool = False

    @field_validator("kafka")
    @classmethod
    def _check_kafka(cls, value: str) -> str:
        for server in value.split(","):
            host, colon, port = server.strip().rpartition(":")
            if not (host and colon and port.isdecimal()):
                raise ValueError("must be host:port, or several of them separated by commas")
        return value

    @field_validator("redis")
    @classmethod
    def _check_redis(cls, value: str) -> str:
        if not value.startswith(_SCHEMES):
            raise ValueError(f"must begin with one of {', '.join(_SCHEMES)}")
        return value

    @field_validator("key")
    @classmethod
    def _check_key(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            _refuse_guessable(value.get_secret_value(), "must")
        return value

    @field_validator("state_key")
    @classmethod
    def _check_state_key(cls, value: SecretStr | None) -> SecretStr | None:
        """It may be several keys, with commas between them or a line each."""
        keys = [] if value is None else split_keys(value.get_secret_value())
        for number, key in enumerate(keys, 1):
            _refuse_guessable(key, "must" if len(keys) == 1 else f"key {number} of {len(keys)} must")
        if len({*keys}) < len(keys):
            raise ValueError("has the same key twice")
        return value

    @field_validator("kafka_oauth_endpoint")
    @classmethod
    def _check_endpoint(cls, value: str | None) -> str | None:
        parts = urlsplit(value or "https://nowhere")
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise ValueError("must begin with https://, because the client's secret is sent there")
        return value

    @field_validator("schema_registry_url")
    @classmethod
    def _check_registry(cls, value: str | None) -> str | None:
        parts = urlsplit(value or "https://nowhere")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise ValueError("must begin with http:// or https://, and have no password in it")
        return value

    @property
    def kafka_servers(self) -> "Brokers":
        return Brokers(self)

    def contradictions(self) -> list[str]:
        """What is wrong with settings that are each right for themselves."""
        return [*_kafka_contradictions(self), *_redis_contradictions(self), *_registry_contradictions(self)]

    @property
    def key_bytes(self) -> bytes:
        """The secret from which all randomness comes. For callers that required SHOAL_KEY."""
        assert self.key is not None, "the caller required SHOAL_KEY"
        return self.key.get_secret_value().encode()

    @property
    def state_key_bytes(self) -> bytes | None:
        """The key or the keys of encryption at rest, as they are set."""
        return None if self.state_key is None else self.state_key.get_secret_value().encode()

    @property
    def policy_path(self) -> Path:
        """The path of the policy. For callers that required SHOAL_POLICY."""
        assert self.policy is not None, "the caller required SHOAL_POLICY"
        return self.policy


def split_keys(state_key: str) -> list[str]:
    """The keys of SHOAL_STATE_KEY, which stand with commas between them or a line each."""
    return [key.strip() for key in re.split(r"[,\r\n]+", state_key) if key.strip()]


def _refuse_guessable(secret: str, must: str) -> None:
    if len(secret) < SHORTEST_KEY or len(set(secret)) < FEWEST_CHARACTERS:
        raise ValueError(
            f"{must} have at least {SHORTEST_KEY} characters, {FEWEST_CHARACTERS} of them different, or it can be "
            "guessed: make one with `openssl rand -base64 32`"
        )


class Brokers(list[str]):
    """The addresses of a cluster, and the settings that say how a client is let in (streams/kafka/access.py).

    Where no settings are, in tests and trials, a plain list of addresses does: those brokers let everyone in.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(server.strip() for server in settings.kafka.split(","))
        self.settings = settings


def load_settings(
    environ: Mapping[str, str] | None = None,
    dotenv: Path | None = None,
    required: Collection[str] = (),
    **overrides: str | None,
) -> Settings:
    """Reads the environment and `.env`; `overrides` (a command's options) win unless they are None.

    `required` names fields that the command needs. Raises SettingsError, which lists every problem.
    """
    problems: list[str] = []
    found = read_dotenv(Path(".env") if dotenv is None else dotenv, problems)
    found.update(os.environ if environ is None else environ)
    values: dict[str, str | None] = {}
    for name in sorted(name for name in found if name.startswith(PREFIX) and name not in FOREIGN):
        field = name.removeprefix(PREFIX).lower()
        if name != PREFIX + field.upper() or not (field in Settings.model_fields or field in SECRET_FILES):
            problems.append(f"{name} is not a setting of Shoal; {_nearest(field)}")
        elif found[name] == "":  # `SHOAL_X=` in a compose file means: not set
            continue
        elif field in Settings.model_fields:
            values[field] = found[name]
        elif found.get(PREFIX + SECRET_FILES[field].upper()):
            problems.append(f"{name} and {PREFIX}{SECRET_FILES[field].upper()} are both set; keep one of the two")
        else:
            values[SECRET_FILES[field]] = read_secret(name, Path(found[name]), problems)
    unread = {field for field, value in values.items() if value is None}
    values.update({field: value for field, value in overrides.items() if value is not None})
    problems.extend(f"{PREFIX}{field.upper()} is not set" for field in required if field not in values)
    try:
        settings = Settings.model_validate({field: value for field, value in values.items() if field not in unread})
    except ValidationError as error:
        for mistake in error.errors(include_input=False, include_context=False, include_url=False):
            message = mistake["msg"].removeprefix("Value error, ")
            problems.append(f"{PREFIX}{str(mistake['loc'][0]).upper()}: {message}")
        raise SettingsError(problems) from None
    problems.extend(settings.contradictions())
    if problems:
        raise SettingsError(problems)
    return settings


# `key_file` stands for the field `key`, and so on.
SECRET_FILES = {
    name + _FILE: name
    for name, field in Settings.model_fields.items()
    if "SecretStr" in str(field.annotation) or name in _WITH_PASSWORD
}


def _kafka_contradictions(settings: Settings) -> list[str]:
    protocol, mechanism = settings.kafka_security_protocol, settings.kafka_sasl_mechanism
    has_sasl, has_tls = protocol.startswith("SASL_"), protocol.endswith("SSL")
    found: list[str] = []
    if has_sasl and mechanism is None:
        found.append(f"SHOAL_KAFKA_SECURITY_PROTOCOL is {protocol}, which needs SHOAL_KAFKA_SASL_MECHANISM")
    given = {name for name in Settings.model_fields if getattr(settings, name) is not None}
    idle: tuple[str, ...] = () if has_sasl else ("kafka_sasl_", "kafka_oauth_")
    idle += () if has_tls else ("kafka_ssl_",)
    found += [
        f"{PREFIX}{name.upper()} has no effect while SHOAL_KAFKA_SECURITY_PROTOCOL is {protocol}"
        for name in sorted(given)
        if name.startswith(idle)
    ]
    if mechanism == "OAUTHBEARER":
        if (settings.kafka_oauth_token_file is None) == (settings.kafka_oauth_endpoint is None):
            found.append(
                "OAUTHBEARER needs SHOAL_KAFKA_OAUTH_TOKEN_FILE, or SHOAL_KAFKA_OAUTH_ENDPOINT with "
                "SHOAL_KAFKA_OAUTH_CLIENT_ID and SHOAL_KAFKA_OAUTH_CLIENT_SECRET, and not both"
            )
        elif settings.kafka_oauth_endpoint and not {"kafka_oauth_client_id", "kafka_oauth_client_secret"} <= given:
            found.append(
                "SHOAL_KAFKA_OAUTH_ENDPOINT needs SHOAL_KAFKA_OAUTH_CLIENT_ID and SHOAL_KAFKA_OAUTH_CLIENT_SECRET"
            )
    elif mechanism is not None and not {"kafka_sasl_username", "kafka_sasl_password"} <= given:
        found.append(f"{mechanism} needs SHOAL_KAFKA_SASL_USERNAME and SHOAL_KAFKA_SASL_PASSWORD")
    if (settings.kafka_ssl_cert is None) != (settings.kafka_ssl_key is None):
        found.append("SHOAL_KAFKA_SSL_CERT and SHOAL_KAFKA_SSL_KEY go together")
    return found


def _redis_contradictions(settings: Settings) -> list[str]:
    found = [
        f"{PREFIX}{name.upper()} has no effect unless SHOAL_REDIS begins with rediss"
        for name in ("redis_ssl_ca", "redis_ssl_cert", "redis_ssl_key")
        if getattr(settings, name) is not None and not settings.redis.startswith("rediss")
    ]
    if (settings.redis_ssl_cert is None) != (settings.redis_ssl_key is None):
        found.append("SHOAL_REDIS_SSL_CERT and SHOAL_REDIS_SSL_KEY go together")
    if settings.redis_sentinel_password is not None and "+sentinel://" not in settings.redis:
        found.append("SHOAL_REDIS_SENTINEL_PASSWORD has no effect unless SHOAL_REDIS names Sentinels")
    return found


def _registry_contradictions(settings: Settings) -> list[str]:
    name, password = settings.schema_registry_username, settings.schema_registry_password
    found = []
    if (name is None) != (password is None):
        found.append("SHOAL_SCHEMA_REGISTRY_USERNAME and SHOAL_SCHEMA_REGISTRY_PASSWORD go together")
    if password is not None and settings.schema_registry_url is None:
        found.append("SHOAL_SCHEMA_REGISTRY_PASSWORD has no effect without SHOAL_SCHEMA_REGISTRY_URL")
    if settings.schema_registry_ssl_ca is not None and not (settings.schema_registry_url or "").startswith("https:"):
        found.append("SHOAL_SCHEMA_REGISTRY_SSL_CA has no effect unless SHOAL_SCHEMA_REGISTRY_URL begins with https")
    return found


def _nearest(field: str) -> str:
    import difflib

    names = difflib.get_close_matches(field, Settings.model_fields, n=1)
    if names:
        return f"did you mean {PREFIX}{names[0].upper()}?"
    return "there are " + ", ".join(PREFIX + name.upper() for name in Settings.model_fields)
