"""Requests of the admin client: the token, errors, and which requests are repeated.

A request that reads is repeated where the platform cannot be reached or answers 503 or 429. A change is repeated only with an
idempotency key: without one nobody knows whether the first was carried out.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

PREFIX = "/api/v1/"
TIMEOUT_S = 60.0
ATTEMPTS = 4
WAIT_S = 0.2  # before the first repetition; twice as long before each further one
WAIT_S_MAX = 5.0
AGAIN = (429, 503)
JSON = "application/json"


class ApiError(Exception):
    """The platform refused a request. `code` is stable and for programs; `detail` says what was wrong and what to do."""

    def __init__(self, status: int, code: str, detail: str, request_id: str) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.request_id = status, code, detail, request_id


class Unreachable(Exception):
    """There was no answer. A change may have been carried out."""


class Http:
    """One connection for each request, so that it may be used from several threads. `sleep` is for tests."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        timeout_s: float = TIMEOUT_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no address of a platform: use http://host:8080 or https://host")
        self.url = url.rstrip("/")
        self._secure, self._host = parts.scheme == "https", parts.hostname
        self._port = parts.port or (443 if self._secure else 80)
        self._base = parts.path.rstrip("/") + PREFIX
        self._token, self._tls, self._timeout_s, self._sleep = token, tls, timeout_s, sleep

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> Any:
        """The JSON of the answer, None without one. `path` is relative to /api/v1/. Raises `ApiError`, `Unreachable`."""
        content = self._content(method, path, body, query, idempotency_key, if_match)
        return json.loads(content) if content else None

    def read(self, method: str, path: str, *, query: Mapping[str, Any] | None = None) -> Any:
        """The bytes of an answer that is no JSON."""
        return self._content(method, path, None, query, None, None)

    def etag(self, path: str) -> str:
        """What `if_match` of a change takes, so that it is refused if somebody else changed the same thing since."""
        _, headers, _ = self.exchange("GET", self._base + path, None, self._headers(None, None))
        return headers.get("etag", "")

    def _headers(self, idempotency_key: str | None, if_match: str | None) -> dict[str, str]:
        headers = {"Accept": "*/*", "User-Agent": "magnetar-admin"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if idempotency_key:
            headers["Idempotency-Key"] = idempotency_key
        if if_match:
            headers["If-Match"] = if_match
        return headers

    def _content(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, Any] | None,
        idempotency_key: str | None,
        if_match: str | None,
    ) -> bytes:
        headers, data = self._headers(idempotency_key, if_match), None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), JSON
        asked = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        target = self._base + path + (f"?{urlencode(asked)}" if asked else "")
        repeats = method == "GET" or idempotency_key is not None
        for attempt in range(1, ATTEMPTS + 1):
            last = attempt == ATTEMPTS or not repeats
            try:
                status, _, content = self.exchange(method, target, data, headers)
            except Unreachable:
                if last:
                    raise
            else:
                if status < 400:
                    return content
                if last or status not in AGAIN:
                    raise _error(status, content)
            self._sleep(min(WAIT_S * 2 ** (attempt - 1), WAIT_S_MAX))
        raise AssertionError("the last attempt returns or raises")

    def exchange(self, method: str, target: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        """One request: the status, headers by their names in small letters, and the content of its answer. Raises `Unreachable`."""
        connection: http.client.HTTPConnection
        if self._secure:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout_s, context=self._tls)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        try:
            connection.request(method, target, data, headers)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{self.url} is not responding: {error or type(error).__name__}") from None
        finally:
            connection.close()


def segment(text: str) -> str:
    """A name as one segment of a path."""
    return quote(text, safe="")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _error(status: int, content: bytes) -> ApiError:
    try:
        problem = json.loads(content)
        return ApiError(status, problem["code"], problem["detail"], problem["request_id"])
    except (ValueError, KeyError, TypeError):
        return ApiError(status, "unknown", f"the answer is {status}, and does not say why", "")
