"""A schema registry: from the id that a record in Avro has to the schema that it was written with.

Two APIs are spoken, and the address says which. Apicurio's own has `/apis/registry/` in it. It knows schemas by a
global id, one for each version of each artifact, and by a content id, one for each text. Every other address is taken
for Confluent's API, which Apicurio serves too, under `/apis/ccompat/v7`, with its content ids.
"""

import base64
import json
import ssl
import urllib.error
import urllib.request
from typing import Any, Final, NamedTuple

from shoal.streams.errors import InputError, ServiceError
from shoal.streams.settings import Settings

_ANSWER_S: Final = 10.0
_LARGEST: Final = 1 << 24
_REFUSED: Final = (401, 403)
_APICURIO: Final = {"globalId": "ids/globalIds", "contentId": "ids/contentIds"}
_CONFLUENT: Final = {"contentId": "schemas/ids"}


class SchemaId(NamedTuple):
    """Which schema: the kind of its id, globalId or contentId, and the id."""

    kind: str
    number: int


class RegistryError(ServiceError):
    """The registry cannot be reached, or does not answer as one does."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"the schema registry at {address} {why}: check SHOAL_SCHEMA_REGISTRY_URL")


class Registry:
    """Where schemas are asked for. Calls block: they belong in a thread."""

    def __init__(self, address: str, settings: Settings) -> None:
        """Raises InputError if the file with authorities has none."""
        self._address = address.rstrip("/")
        self._is_apicurio = "/apis/registry/" in self._address
        self._paths = _APICURIO if self._is_apicurio else _CONFLUENT
        self._headers = {"Accept": "application/json", **_authorization(settings)}
        self._tls = _tls(settings) if address.startswith("https://") else None

    def read_prefix(self, raw: bytes) -> tuple[SchemaId, bytes] | None:
        """The id that stands after a record's zero byte, and what follows; None if it is too short for one.

        Confluent's converter writes four bytes, Apicurio's eight, with a global id.
        """
        end = 9 if self._is_apicurio else 5
        kind = "globalId" if self._is_apicurio else "contentId"
        return (SchemaId(kind, int.from_bytes(raw[1:end])), raw[end:]) if len(raw) >= end else None

    def fetch(self, wanted: SchemaId) -> Any | None:
        """The schema with this id, None if there is none. Raises RegistryError; InputError if it lets nobody in."""
        if wanted.kind not in self._paths:
            raise InputError(
                "a captured topic has records with Apicurio's global ids, which Confluent's API does not know: set "
                "SHOAL_SCHEMA_REGISTRY_URL to Apicurio's own, which ends with /apis/registry/v2"
            )
        where = f"{self._address}/{self._paths[wanted.kind]}/{wanted.number}"
        request = urllib.request.Request(where, headers=self._headers)  # noqa: S310 - the settings take http and https
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_S, context=self._tls) as response:  # noqa: S310
                answer = json.loads(response.read(_LARGEST))
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            if error.code in _REFUSED:
                raise InputError(
                    f"the schema registry at {self._address} answers {error.code}: check "
                    "SHOAL_SCHEMA_REGISTRY_USERNAME and SHOAL_SCHEMA_REGISTRY_PASSWORD"
                ) from None
            raise RegistryError(self._address, f"answers {error.code}") from None
        except OSError:
            raise RegistryError(self._address, "cannot be reached") from None
        except ValueError:
            raise RegistryError(self._address, "does not answer in JSON") from None
        return answer if self._is_apicurio else self._unpack(answer)

    def _unpack(self, answer: Any) -> Any:
        """Confluent's API writes the schema as text into an object."""
        try:
            return json.loads(answer["schema"])
        except (KeyError, TypeError, ValueError):
            raise RegistryError(self._address, "answers without a schema") from None


def open_registry(settings: Settings) -> Registry | None:
    """The registry that the settings name. Raises InputError."""
    address = settings.schema_registry_url
    return None if address is None else Registry(address, settings)


def _authorization(settings: Settings) -> dict[str, str]:
    if settings.schema_registry_username is None or settings.schema_registry_password is None:
        return {}
    pair = f"{settings.schema_registry_username}:{settings.schema_registry_password.get_secret_value()}"
    return {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


def _tls(settings: Settings) -> ssl.SSLContext:
    ca = settings.schema_registry_ssl_ca
    try:
        return ssl.create_default_context(cafile=ca)
    except (ssl.SSLError, OSError):
        raise InputError(f"SHOAL_SCHEMA_REGISTRY_SSL_CA: {ca} has no certificates in PEM format") from None
