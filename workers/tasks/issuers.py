"""Fetches the JWKS documents of issuers, in a worker: no process that serves clients waits for somebody else's server."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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

TIMEOUT_S = 10.0  # for connecting, and again for TLS and the whole answer together
TOO_SLOW = "the answer took too long"


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
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    with contextlib.closing(connection), socket.create_connection((host, port), TIMEOUT_S) as plain, _ended_in_time(plain) as ended:
        connection.sock = plain
        if parts.scheme == "https":
            connection.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=host)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            connection.request("GET", path, headers={"Accept": "application/json", "User-Agent": "magnetar"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise InvalidValue(f"the answer has status {answer.status}, not 200")
            body = answer.read(JWKS_BYTES_MAX + 1)
        except (OSError, http.client.HTTPException):
            if ended.is_set():
                raise TimeoutError(TOO_SLOW) from None
            raise
    if ended.is_set():
        raise TimeoutError(TOO_SLOW)
    if len(body) > JWKS_BYTES_MAX:
        raise InvalidValue(f"the document has more than {JWKS_BYTES_MAX} bytes")
    return body


@contextmanager
def _ended_in_time(connection: socket.socket) -> Iterator[threading.Event]:
    """Shuts the connection down after `TIMEOUT_S` and sets the event: a server that sends a byte now and then, of its TLS, its
    headers or the document, would hold the worker, for `http.client` waits for each of them anew."""
    ended = threading.Event()
    # A copy: the worker may close its own, and wrapping it in TLS takes it away.
    with connection.dup() as copy:

        def end() -> None:
            ended.set()
            with contextlib.suppress(OSError):
                copy.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(TIMEOUT_S, end)
        timer.start()
        try:
            yield ended
        finally:
            timer.cancel()
            timer.join()


def _text(error: Exception) -> str:
    return error.message if isinstance(error, InvalidValue) else f"{type(error).__name__}: {error}"
