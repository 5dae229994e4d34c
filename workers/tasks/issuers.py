"""Fetches the JWKS documents of issuers, in a worker: no process that serves clients waits for somebody else's server."""

from __future__ import annotations

import http.client
import ssl
import time
from typing import Any
from urllib.parse import urlsplit

from messaging.errors import InvalidValue
from messaging.identity.issuers import JWKS_BYTES_MAX, stored_keys
from tenants.access import platform_actor
from tenants.actions.issuers import allowed_addresses, keep_issuer_keys, keep_issuer_problem
from tenants.models import TokenIssuer
from tenants.scoping import platform_scope
from workers.environment import Environment
from workers.runs import Renew

TIMEOUT_S = 10.0  # for connecting, TLS and the whole answer together
PIECE_BYTES = 8192


def refresh_issuers(environment: Environment, task_id: str, renew: Renew) -> dict[str, Any]:
    """One after the other; one that cannot be fetched keeps its keys, and holds up no other for longer than `TIMEOUT_S`."""
    fetched = changed = problems = 0
    actor = platform_actor("service:worker")
    with platform_scope():
        rows = list(TokenIssuer.objects.order_by("tried_at", "id").values_list("id", "tenant_id", "jwks_url"))
    for issuer_id, tenant, url in rows:
        renew()
        if environment.stopping.is_set():
            break
        try:
            if not any(url.startswith(begin) for begin in allowed_addresses(tenant)):
                raise InvalidValue("its address is no longer in token_issuers_allowed")
            changed += keep_issuer_keys(actor, issuer_id, url, stored_keys(fetch(url)), environment.now())
            fetched += 1
        except (InvalidValue, OSError, http.client.HTTPException) as error:
            keep_issuer_problem(actor, issuer_id, _text(error), environment.now())
            problems += 1
    return {"fetched": fetched, "changed": changed, "problems": problems}


def fetch(url: str) -> bytes:
    """The document. Redirects are not followed: they could lead to addresses that are not allowed. Raises `OSError`,
    `http.client.HTTPException`, `InvalidValue` for an answer that is none, or too long."""
    parts = urlsplit(url)
    until_s = time.monotonic() + TIMEOUT_S
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S, context=context)
    else:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", path, headers={"Accept": "application/json", "User-Agent": "magnetar"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise InvalidValue(f"the answer has status {answer.status}, not 200")
        return _body(answer, until_s)
    finally:
        connection.close()


def _body(answer: http.client.HTTPResponse, until_s: float) -> bytes:
    """Whole, in time and within its limit, however slowly it is sent."""
    body = b""
    while piece := answer.read1(PIECE_BYTES):
        body += piece
        if len(body) > JWKS_BYTES_MAX:
            raise InvalidValue(f"the document has more than {JWKS_BYTES_MAX} bytes")
        if time.monotonic() > until_s:
            raise TimeoutError("the answer took too long")
    return body


def _text(error: Exception) -> str:
    return error.message if isinstance(error, InvalidValue) else f"{type(error).__name__}: {error}"
