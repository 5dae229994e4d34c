"""Sends one request to a tenant's webhook. It cannot be made to reach the platform's own addresses.

The name is looked up once, every address is judged, and the connection goes to an address that was judged: a name that is answered
differently the next time opens nothing. Redirects are not followed, and nothing of the answer but its status is read.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import ipaddress
import re
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from messaging.errors import InvalidValue, NotAllowed, NotReady
from workers.alerts.public_addresses import is_public, meant

TIMEOUT_S = 10.0  # for connecting, TLS, sending, and the first line of the answer together
LINE_BYTES_MAX = 1024
Resolve = Callable[[str, int], list[str]]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})\b")


def networks(text: str) -> list[Network]:
    """Of the setting `webhook_allowed_networks`: 10.1.0.0/16, fd00::/8. Raises `ValueError`."""
    return [ipaddress.ip_network(network.strip()) for network in text.split(",") if network.strip()]


def check_url(url: str, what: str = "a webhook") -> None:
    """Raises `InvalidValue`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:  # a bracket that is not closed, a port that is no number
        raise InvalidValue(f"{url[:80]!r} is not the URL of {what} ({error}): use https://host/path") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or parts.username or not url.isascii():
        raise InvalidValue(f"{url[:80]!r} is not the URL of {what}: use https://host/path")
    if any(ord(character) < 33 for character in url):
        raise InvalidValue(f"the URL of {what} has no spaces or control characters")


def host_of(url: str) -> str:
    """ "" for what is no URL."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def address_of(host: str, port: int, allowed: Sequence[Network], resolve: Resolve) -> str:
    """An address that may be connected to. Raises `NotAllowed` if any of the name may not be, `NotReady` if there is none."""
    try:
        addresses = resolve(host, port)
    except OSError as error:
        raise NotReady(f"the webhook's host {host!r} has no address: {error}") from None
    for text in addresses:
        address = meant(ipaddress.ip_address(text.partition("%")[0]))
        if not is_public(address) and not any(address in network for network in allowed):
            raise NotAllowed(
                f"the webhook's host {host!r} has the address {address}, which is not public: use a public host, or ask the "
                f"administrator of the platform to allow that network (webhook_allowed_networks)"
            )
    if not addresses:
        raise NotReady(f"the webhook's host {host!r} has no address")
    return addresses[0]


def signature(secret: str, at_s: int, body: bytes) -> str:
    """Value of X-Magnetar-Signature: HMAC-SHA256 of ``<t>.<body>``, in hex."""
    return f"t={at_s},v1={hmac.new(secret.encode(), b'%d.' % at_s + body, hashlib.sha256).hexdigest()}"


def post(
    url: str,
    secret: str,
    notice_id: str,
    body: bytes,
    at_s: int,
    allowed: Sequence[Network],
    resolve: Resolve,
    *,
    content_type: str = "application/json",
) -> int:
    """The status of the answer. Blocks for `TIMEOUT_S` and what the name takes. Raises `NotAllowed`, and
    `NotReady` where a retry may help."""
    check_url(url)
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = address_of(host, port, allowed, resolve)
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    until_s = time.monotonic() + TIMEOUT_S
    try:
        connection.sock = socket.create_connection((address, port), TIMEOUT_S)
        if parts.scheme == "https":
            connection.sock.settimeout(_left(until_s))
            connection.sock = ssl.create_default_context().wrap_socket(connection.sock, server_hostname=host)
        connection.sock.settimeout(_left(until_s))
        headers = {
            "Content-Type": content_type,
            "User-Agent": "magnetar",
            "X-Magnetar-Notice": notice_id,
            "X-Magnetar-Signature": signature(secret, at_s, body),
        }
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, headers)
        status = _status_of(connection.sock, until_s)
    except (OSError, http.client.HTTPException) as error:
        raise NotReady(f"the webhook at {host} did not answer: {type(error).__name__}") from None
    finally:
        connection.close()
    if not 200 <= status < 300:
        raise NotReady(f"the webhook at {host} answered {status}")
    return status


def _left(until_s: float) -> float:
    """Raises `TimeoutError` where that is nothing."""
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("the answer took too long")
    return left_s


def _status_of(answer: socket.socket, until_s: float) -> int:
    """Raises `OSError` unless its line comes in time, however many bytes do: a server that sends slowly, or one interim answer
    after the other, would hold the worker."""
    line = b""
    while b"\n" not in line and len(line) < LINE_BYTES_MAX:
        answer.settimeout(_left(until_s))
        piece = answer.recv(LINE_BYTES_MAX)
        if not piece:
            break
        line += piece
    matched = _STATUS.match(line)
    if matched is None:
        raise ConnectionError("the answer is not HTTP")
    return int(matched[1])


def resolved(host: str, port: int) -> list[str]:
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in infos))
