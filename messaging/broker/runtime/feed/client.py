"""Requests a page of the feed from the web process."""

from __future__ import annotations

import http.client
import json
import ssl
from urllib.parse import urlencode, urlsplit

from messaging.adminrpc.feed import ANSWER_BYTES_MAX, FeedApply
from messaging.errors import NotReady
from messaging.identity import service_token
from messaging.internal_tls import internal_client_tls, require_service
from messaging.json_types import decoder_of
from messaging.settings import Settings

PULL_TIMEOUT_S = 3.0


def fetch(settings: Settings, since: int, feed_id: str, after: str) -> FeedApply:
    """The page after version `since` of the feed `feed_id`; with `after`, the page of a full feed that begins behind that key.

    Blocks. Raises `OSError`, `http.client.HTTPException`, and `ValueError` for an answer that is none."""
    query = urlencode({"since": since, "feed_id": feed_id, "after": after})
    data = _get(settings, f"{_internal_url(settings)}/internal/v1/feed?{query}", service_token(settings, "broker"))
    return decoder_of(FeedApply).decode(data)


def _internal_url(settings: Settings) -> str:
    if settings.web_internal_url:
        return settings.web_internal_url.rstrip("/")
    run = json.loads((settings.data_path / "run" / "web.json").read_text())
    return str(run["internal_url"]).rstrip("/")


def _get(settings: Settings, url: str, token: str) -> bytes:
    parts = urlsplit(url)
    connection: http.client.HTTPConnection
    tls = internal_client_tls(settings, "broker") if parts.scheme == "https" else None
    if tls is not None:
        connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=PULL_TIMEOUT_S, context=tls.context())
    elif settings.internal_tls:
        raise OSError(f"{url} is without TLS: restart the web process, which listens with it")
    elif parts.scheme == "https":
        connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=PULL_TIMEOUT_S)
    else:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PULL_TIMEOUT_S)
    try:
        connection.connect()
        if tls is not None and isinstance(connection.sock, ssl.SSLSocket):
            try:
                require_service(connection.sock, "web", url)
            except NotReady as error:
                raise OSError(error.message) from None
        connection.request("GET", f"{parts.path}?{parts.query}", headers={"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        data = response.read(ANSWER_BYTES_MAX + 1)
        if response.status != 200:
            raise OSError(f"the web process returned {response.status} for {parts.path}")
        if len(data) > ANSWER_BYTES_MAX:
            raise ValueError(f"a page of the feed is longer than {ANSWER_BYTES_MAX} bytes and was refused")
        return data
    finally:
        connection.close()
