"""Tokens for OAUTHBEARER: from a file that something else keeps fresh, or from a token endpoint."""

import asyncio
import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import AuthenticationFailedError

_ANSWER_S = 10.0
_LARGEST = 1 << 20
# A token is asked for again when this share of its life is over, so that no login begins with one about to end.
_FRESH = 0.8
_LIFE_S = 60.0  # of a token whose endpoint does not say


class FileToken(AbstractTokenProvider):
    """A token that a file has, as Kubernetes and cloud agents write it. It is read at every login."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def token(self) -> str:
        """Raises AuthenticationFailedError if there is none."""
        try:
            token = (await asyncio.to_thread(self._path.read_text, "utf-8")).strip()
        except (OSError, UnicodeDecodeError):
            token = ""
        if not token:
            raise AuthenticationFailedError(f"SHOAL_KAFKA_OAUTH_TOKEN_FILE: {self._path} has no token")
        return token


class EndpointToken(AbstractTokenProvider):
    """A token from an endpoint, by the client credentials of RFC 6749, section 4.4; kept while it is good."""

    def __init__(self, endpoint: str, client_id: str, client_secret: str, scope: str | None) -> None:
        self._endpoint, self._scope = endpoint, scope
        # Section 2.3.1: both are form-encoded before they are joined.
        pair = f"{urllib.parse.quote_plus(client_id)}:{urllib.parse.quote_plus(client_secret)}"
        self._authorization = "Basic " + base64.b64encode(pair.encode()).decode()
        self._token, self._good_until = "", 0.0
        self._asking: asyncio.Lock | None = None

    async def token(self) -> str:
        """Raises AuthenticationFailedError if the endpoint gives none."""
        if self._asking is None:
            self._asking = asyncio.Lock()
        async with self._asking:
            if time.monotonic() >= self._good_until:
                asked = time.monotonic()
                answer = await asyncio.to_thread(self._ask)
                self._token = answer["access_token"]
                self._good_until = asked + _FRESH * float(answer.get("expires_in") or _LIFE_S)
            return self._token

    def _ask(self) -> dict[str, Any]:
        form = {"grant_type": "client_credentials"} | ({} if self._scope is None else {"scope": self._scope})
        request = urllib.request.Request(  # noqa: S310 - the settings take https, and http to this machine only
            self._endpoint,
            urllib.parse.urlencode(form).encode(),
            {"Authorization": self._authorization, "Accept": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_S) as response:  # noqa: S310 - as above
                answer = json.loads(response.read(_LARGEST))
        except urllib.error.HTTPError as error:
            raise AuthenticationFailedError(
                f"the token endpoint answers {error.code}: check SHOAL_KAFKA_OAUTH_CLIENT_ID and "
                "SHOAL_KAFKA_OAUTH_CLIENT_SECRET"
            ) from None
        except (OSError, ValueError):
            raise AuthenticationFailedError(
                "the token endpoint cannot be reached: check SHOAL_KAFKA_OAUTH_ENDPOINT"
            ) from None
        if not isinstance(answer, dict) or not isinstance(answer.get("access_token"), str):
            raise AuthenticationFailedError("the token endpoint answers without an access_token")
        return answer
