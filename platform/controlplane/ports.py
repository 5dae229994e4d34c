"""Checks that the configured ports are free; if not, says which process uses them and which option selects another."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from messaging.settings import ConfigError, Settings


class Listener(NamedTuple):
    what: str
    host: str
    port: int
    option: str


def broker_listeners(settings: Settings) -> list[Listener]:
    """Those of one broker, or of the first of several."""
    listeners = [
        Listener("clients", settings.plain_host, settings.broker_port, "--broker-port"),
        Listener("WebSocket", settings.host, settings.ws_port, "--ws-port"),
        Listener("admin RPC", settings.broker_rpc_host, settings.broker_rpc_port, "MAGNETAR_BROKER_RPC_PORT"),
    ]
    if settings.tls != "off":
        listeners.append(Listener("clients with TLS", settings.host, settings.broker_tls_port, "--broker-tls-port"))
    return listeners


def own_broker_listeners(settings: Settings) -> list[Listener]:
    """Those that a broker does not share with others, which may run already."""
    if settings.brokers == 1:
        return broker_listeners(settings)
    return [listener for listener in broker_listeners(settings) if not listener.what.startswith("clients")] + [
        Listener("own clients", settings.plain_host, settings.broker_own_port, "MAGNETAR_BROKER_OWN_PORT"),
        Listener("own clients with TLS", settings.host, settings.broker_own_tls_port, "MAGNETAR_BROKER_OWN_TLS_PORT"),
    ]


def web_listeners(settings: Settings) -> list[Listener]:
    return [Listener("console and REST", settings.host, settings.web_port, "--web-port")]


def require_free(listeners: Iterable[Listener]) -> None:
    """Raises `ConfigError` for the first port that cannot be bound or is configured twice. Port 0 is always free."""
    taken: dict[tuple[str, int], Listener] = {}
    for listener in listeners:
        if listener.port == 0:
            continue
        twin = taken.setdefault((listener.host, listener.port), listener)
        if twin is not listener:
            raise ConfigError(
                f"port {listener.port} is configured for both {twin.what} and {listener.what}: choose another with "
                f"{listener.option}"
            )
        problem = why_not_free(listener.host, listener.port)
        if problem:
            raise ConfigError(
                f"port {listener.port} ({listener.what}) {problem}: stop that process, or choose another port with "
                f"{listener.option} (0 picks a free one)"
            )


def why_not_free(host: str, port: int) -> str:
    """Empty if `host`:`port` can be bound, else the reason."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except socket.gaierror as error:
        return f"cannot be opened on host {host!r} ({error.strerror})"
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return f"on {host} is in use{holder(port)}"
        if error.errno == errno.EADDRNOTAVAIL:
            return f"cannot be opened on {host}: this machine has no such address"
        return f"cannot be opened on {host} ({error.strerror})"
    return ""


def holder(port: int) -> str:
    """`` by NAME (process PID)`` of the process that listens on `port`, or empty if /proc does not show it."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/net", table).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in (line.split() for line in lines):
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    if not inodes:
        return ""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(str(link.readlink()) in inodes for link in (process / "fd").iterdir()):
                return f" by {(process / 'comm').read_text().strip()} (process {process.name})"
        except OSError:
            continue
    return " by a process of another user"
