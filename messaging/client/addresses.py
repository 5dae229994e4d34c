"""Service URLs: where a client finds the broker, and by which transport."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from messaging.errors import InvalidValue

_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651, "ws": 8081, "wss": 443}
WEBSOCKET_PATH = "/ws/v2/binary"


class Address(NamedTuple):
    """`scheme`: pulsar, pulsar+ssl, ws or wss. `path` is that of the WebSocket, with a leading slash."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @property
    def tls(self) -> bool:
        return self.scheme in ("pulsar+ssl", "wss")

    @property
    def web_socket(self) -> bool:
        return self.scheme in ("ws", "wss")

    @property
    def host_and_port(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host_and_port}{self.path}"


def parse_addresses(url: str) -> tuple[Address, ...]:
    """``pulsar://host:6650``, several hosts separated by commas, ``pulsar+ssl://``, ``ws://host:8081`` and ``wss://``. Raises
    `InvalidValue`."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in _PORTS:
        raise InvalidValue(f"{url[:200]!r} is not a service URL: use pulsar://host:6650, pulsar+ssl://, ws://host:8081 or wss://")
    return tuple(_parse(scheme, part, url) for part in rest.split(","))


def _parse(scheme: str, part: str, url: str) -> Address:
    try:
        parts = urlsplit(f"{scheme}://{part}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidValue(f"{url[:200]!r} is not a service URL: {error}") from None
    if not host or parts.query or parts.fragment or parts.username is not None:
        raise InvalidValue(f"{url[:200]!r} is not a service URL: it consists of a scheme, a host and a port, and a path for ws://")
    path = ""
    if scheme in ("ws", "wss"):
        path = parts.path.rstrip("/") + WEBSOCKET_PATH
    elif parts.path.strip("/"):
        raise InvalidValue(f"{url[:200]!r} is not a service URL: {scheme}:// has no path")
    return Address(scheme, host, port or _PORTS[scheme], path)
