"""The settings: read once from the environment into one frozen object, with every problem reported together.

A setting is the environment variable `SHOAL_<NAME>`, or a line of a file `.env` in the working folder; the environment
wins (docs/contract.md, "Settings"). An unknown name that begins with `SHOAL_` is refused: a privacy setting must not be
ignored because it is misspelt.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from shoal.streams.errors import InputError

PREFIX = "SHOAL_"

# Read elsewhere: by the crash points of the fault tests and by the test suite.
FOREIGN = frozenset({"SHOAL_CRASH_AT", "SHOAL_REQUIRE_SERVICES", "SHOAL_TEST_KAFKA", "SHOAL_TEST_REDIS"})

_SCHEMES = ("redis://", "rediss://", "unix://")


class SettingsError(InputError):
    """One or more settings are wrong. The message lists all of them, and no secret."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("the settings are wrong:\n  " + "\n  ".join(problems) if len(problems) > 1 else problems[0])
        self.problems = tuple(problems)


class Settings(BaseModel):
    """Every setting with its default. The field `web_port` is the variable SHOAL_WEB_PORT, and so on."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    kafka: str = "localhost:9092"
    redis: str = "redis://localhost:6379/0"
    policy: Path | None = None
    key: SecretStr | None = None
    state_key: SecretStr | None = None
    web_bind: str = "127.0.0.1"
    web_port: Annotated[int, Field(ge=0, le=65535)] = 6066
    partitions: Annotated[int, Field(ge=1, le=10_000)] = 8
    replication: Annotated[int, Field(ge=1, le=100)] = 1
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
                raise ValueError("must be host:port, or several of them with commas between")
        return value

    @field_validator("redis")
    @classmethod
    def _check_redis(cls, value: str) -> str:
        if not value.startswith(_SCHEMES):
            raise ValueError(f"must begin with one of {', '.join(_SCHEMES)}")
        return value

    @field_validator("key", "state_key")
    @classmethod
    def _check_key(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value():
            raise ValueError("must not be empty")
        return value

    @property
    def kafka_servers(self) -> list[str]:
        return [server.strip() for server in self.kafka.split(",")]

    @property
    def key_bytes(self) -> bytes:
        """The secret from which all randomness comes. For callers that required SHOAL_KEY."""
        assert self.key is not None, "the caller required SHOAL_KEY"
        return self.key.get_secret_value().encode()

    @property
    def state_key_bytes(self) -> bytes | None:
        return None if self.state_key is None else self.state_key.get_secret_value().encode()

    @property
    def policy_path(self) -> Path:
        """The path of the policy. For callers that required SHOAL_POLICY."""
        assert self.policy is not None, "the caller required SHOAL_POLICY"
        return self.policy


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
    found = _read_dotenv(Path(".env") if dotenv is None else dotenv, problems)
    found.update(os.environ if environ is None else environ)
    values: dict[str, str] = {}
    for name in sorted(name for name in found if name.startswith(PREFIX) and name not in FOREIGN):
        field = name.removeprefix(PREFIX).lower()
        if field not in Settings.model_fields or name != PREFIX + field.upper():
            problems.append(f"{name} is not a setting of Shoal; {_nearest(field)}")
        elif found[name] != "":  # `SHOAL_X=` in a compose file means: not set
            values[field] = found[name]
    values.update({field: value for field, value in overrides.items() if value is not None})
    problems.extend(f"{PREFIX}{field.upper()} is not set" for field in required if field not in values)
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        for mistake in error.errors(include_input=False, include_context=False, include_url=False):
            message = mistake["msg"].removeprefix("Value error, ")
            problems.append(f"{PREFIX}{str(mistake['loc'][0]).upper()}: {message}")
        raise SettingsError(problems) from None
    if problems:
        raise SettingsError(problems)
    return settings


def _nearest(field: str) -> str:
    import difflib

    names = difflib.get_close_matches(field, Settings.model_fields, n=1)
    if names:
        return f"did you mean {PREFIX}{names[0].upper()}?"
    return "there are " + ", ".join(PREFIX + name.upper() for name in Settings.model_fields)


def _read_dotenv(path: Path, problems: list[str]) -> dict[str, str]:
    """Lines `NAME=value`, with optional `export` and quotes; blank lines and lines that begin with # do not count."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError):
        problems.append(f"{path} cannot be read as text")
        return {}
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.removeprefix("export ").partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name.replace("_", "a").isalnum():
            problems.append(f"{path}:{number}: a line must be NAME=value")
            continue
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        found[name] = value
    return found
