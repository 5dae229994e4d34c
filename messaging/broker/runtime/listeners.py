"""The sockets that a broker listens on, opened before anything else, and the URLs that they make.

One of several brokers on a machine listens on two ports for clients: `broker_port`, which all of them share and the system divides
among them, and one of its own, to which look-ups send the clients of its topics.
"""

from __future__ import annotations

import errno
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from messaging.settings import ConfigError, Settings

BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class Addresses:
    """What clients are told: URLs, empty where there is no such listener. `service_url`: that of all brokers on this machine."""

    broker_url: str
    broker_url_tls: str
    ws_url: str
    rpc_url: str
    http_url: str = ""
    http_url_tls: str = ""
    service_url: str = ""
    service_url_tls: str = ""
    internal_url: str = ""  # of other brokers, on behalf of their clients


@dataclass(frozen=True, slots=True)
class Listeners:
    """`plain` and `secure`: without and with TLS, the broker's own socket last. `secure` is empty without TLS. `internal`: of other
    brokers, where our processes speak mutual TLS."""

    plain: list[socket.socket]
    secure: list[socket.socket]
    web_socket: socket.socket
    rpc: socket.socket
    internal: socket.socket | None = None

    def __iter__(self) -> Iterator[socket.socket]:
        yield from (*self.plain, *self.secure, self.web_socket, self.rpc)
        if self.internal is not None:
            yield self.internal

    @property
    def shared(self) -> list[socket.socket]:
        """Those on which other brokers of this machine listen, too."""
        return [*self.plain[:-1], *self.secure[:-1]]

    def close(self) -> None:
        for each in self:
            each.close()

    def addresses(self, settings: Settings) -> Addresses:
        host = _in_url(settings.client_host)
        plain_host = host if settings.plain_host == settings.host else settings.plain_host
        rpc_host = settings.broker_rpc_host
        if rpc_host in ("", "0.0.0.0", "::"):  # where it is open to other machines, these are told how to reach it
            rpc_host = settings.client_host if settings.internal_tls else "127.0.0.1"
        web = f"{'https' if settings.tls != 'off' else 'http'}://{host}:{settings.web_port}" if settings.web_port else ""
        plain = [f"pulsar://{plain_host}:{_port(each)}" for each in self.plain]
        secure = [f"pulsar+ssl://{host}:{_port(each)}" for each in self.secure] or [""]
        return Addresses(
            broker_url=plain[-1],
            broker_url_tls=secure[-1],
            ws_url=f"{'wss' if settings.tls != 'off' else 'ws'}://{host}:{_port(self.web_socket)}",
            rpc_url=f"{'https' if settings.internal_tls else 'http'}://{_in_url(rpc_host)}:{_port(self.rpc)}",
            http_url=web if settings.tls == "off" else "",
            http_url_tls=web if settings.tls != "off" else "",
            service_url=plain[0],
            service_url_tls=secure[0],
            internal_url=f"pulsar+ssl://{_in_url(rpc_host)}:{_port(self.internal)}" if self.internal is not None else "",
        )


def open_listeners(settings: Settings) -> Listeners:
    """Raises `ConfigError` naming the setting whose port is taken. Nothing is left open then."""
    opened: list[socket.socket] = []

    def listen(host: str, port: int, setting: str, *, shared: bool = False) -> socket.socket:
        opened.append(_listen(host, port, setting, shared=shared))
        return opened[-1]

    several, secure = settings.brokers > 1, settings.tls != "off"
    try:
        return Listeners(
            plain=[
                listen(
                    settings.plain_host, _shared_port(settings, settings.broker_port, "broker_url"), "broker_port", shared=several
                ),
                *([listen(settings.plain_host, settings.broker_own_port, "broker_own_port")] if several else []),
            ],
            secure=[
                listen(
                    settings.host,
                    _shared_port(settings, settings.broker_tls_port, "broker_url_tls"),
                    "broker_tls_port",
                    shared=several,
                ),
                *([listen(settings.host, settings.broker_own_tls_port, "broker_own_tls_port")] if several else []),
            ]
            if secure
            else [],
            web_socket=listen(settings.host, settings.ws_port, "ws_port"),
            rpc=listen(settings.broker_rpc_host, settings.broker_rpc_port, "broker_rpc_port"),
            internal=listen(settings.broker_rpc_host, settings.broker_internal_port, "broker_internal_port")
            if settings.internal_tls
            else None,
        )
    except BaseException:
        for each in opened:
            each.close()
        raise


def _shared_port(settings: Settings, port: int, key: str) -> int:
    """Where it was left to the system, it is the one that the first broker was given. Raises `ConfigError`."""
    if port or settings.broker_number == 1:
        return port
    first = settings.data_path / "run" / "broker.json"
    try:
        return int(urlsplit(json.loads(first.read_bytes())[key]).port or 0)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"the first broker's port is not known ({first.name}: {type(error).__name__}): start that one first"
        ) from None


def _listen(host: str, port: int, setting: str, *, shared: bool) -> socket.socket:
    """A bound, listening socket. Raises `ConfigError` naming the setting."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"{setting} {port} on {host} is in use by another process: "
                f"stop that process, or set MAGNETAR_{setting.upper()} (0 picks a free port)"
            ) from None
        raise ConfigError(f"{setting} {port} on {host} cannot be opened: {error.strerror}") from None
    listener.setblocking(False)
    return listener


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _port(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])
