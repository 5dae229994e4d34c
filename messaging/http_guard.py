"""Which `Host` and `Origin` headers an HTTP or WebSocket listener of ours accepts. Pure; broker and web share it.

A page on the Internet can make a browser send requests to a listener on loopback: straight, which its `Origin` gives away, or by
letting its own name resolve to 127.0.0.1, which the name in `Host` gives away. So a `Host` must be a name we go by, and an
`Origin`, which only browsers send, must be of the same host or one that was allowed. Ports are not compared: the console on one
port uses the WebSocket listener on another. All loopback names are one host.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_.-]{1,253})(?::[0-9]{1,5})?", re.ASCII)
_LOOPBACK = "loopback"


class HostView(Protocol):
    """What `messaging.settings.Settings` has of it."""

    @property
    def host(self) -> str:
        """The address the listener is bound to."""

    @property
    def client_host(self) -> str:
        """The name that clients were given."""

    @property
    def allowed_hosts(self) -> Collection[str]:
        """Further names; one that begins with a dot stands for everything below it."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """Names of a listener for our own processes: the address that it binds to, the one that others are told, and more."""

    host: str
    client_host: str
    allowed_hosts: tuple[str, ...]


def check_host(host_header: str | None, settings: HostView) -> str | None:
    """None if a request with this `Host` is for us; else the reason to refuse it (HTTP 421)."""
    name = _canonical(host_header or "")
    if name is None:
        return "the request has no valid Host header: send the name or address it was addressed to"
    if _known(name, settings):
        return None
    return f"host name {name!r} is not allowed: add it to allowed_hosts (MAGNETAR_ALLOWED_HOSTS)"


def check_origin(origin: str | None, host_header: str | None, settings: HostView) -> str | None:
    """None if a request with this `Origin` header (None: there is none) may continue; else the reason to refuse it (HTTP 403)."""
    if origin is None:
        return None
    name = None
    try:
        parts = urlsplit(origin)
        if parts.scheme in ("http", "https"):
            name = _canonical(parts.netloc)
    except ValueError:
        pass
    if name is not None and (name == _canonical(host_header or "") or _allowed(name, settings)):
        return None
    return f"origin {origin[:200]!r} is not allowed: add its host to allowed_hosts (MAGNETAR_ALLOWED_HOSTS)"


class Refusal(NamedTuple):
    status: int  # of HTTP
    reason: str


def refusal(host_header: str | None, origin: str | None, settings: HostView) -> Refusal | None:
    """Both checks; None: the request may go on."""
    reason = check_host(host_header, settings)
    if reason is not None:
        return Refusal(421, reason)
    reason = check_origin(origin, host_header, settings)
    return Refusal(403, reason) if reason is not None else None


def _canonical(host: str) -> str | None:
    """The name without port, in lower case; `_LOOPBACK` for every name of this machine; None for what is not a host."""
    match = _HOST.fullmatch(host)
    if match is None:
        return None
    name = match["name"].strip("[]").lower().removesuffix(".")
    if name == "localhost":
        return _LOOPBACK
    address = _address(name)
    if address is None:
        return name if name and ":" not in name else None
    return _LOOPBACK if address.is_loopback else str(address)


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _known(name: str, settings: HostView) -> bool:
    if name == _LOOPBACK or name == _canonical(_bracketed(settings.client_host)) or _allowed(name, settings):
        return True
    # A page cannot make its own name look like an address, so on a listener open to others any address of ours will do.
    # (0.0.0.0 is none: browsers let pages use it as another way to loopback.)
    address = _address(name)
    bound = _address(settings.host) if settings.host else None
    open_to_others = not settings.host or (bound is not None and bound.is_unspecified)
    return address is not None and open_to_others and not address.is_unspecified


def _allowed(name: str, settings: HostView) -> bool:
    for entry in settings.allowed_hosts:
        if entry.startswith("."):
            if name.endswith(entry.lower()) or name == entry[1:].lower():
                return True
        elif name == _canonical(_bracketed(entry)):
            return True
    return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
