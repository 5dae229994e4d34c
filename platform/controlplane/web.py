"""The web process: uvicorn on sockets that we open, so that port 0 works and the address is known before the first request."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import json
import logging
import os
import signal
import socket
import ssl
import sys
from functools import partial
from typing import Any, NoReturn
from urllib.parse import urlsplit

from controlplane import bootstrap, current, gateway, http_counters
from messaging import descriptors, logs
from messaging.atomic_files import replace_file
from messaging.http_server.samples import connection_samples, request_samples, tunnel_samples
from messaging.http_server.server import HttpServer, http_server
from messaging.http_server.tls import BACKLOG
from messaging.http_server.tunnel import Tunnels
from messaging.internal_tls import internal_server_context
from messaging.settings import ConfigError, Settings, load
from messaging.tls import server_context

log = logs.get_logger("web")
INTERNAL = "web-internal"  # the listener for brokers
STOP_S = 3  # for requests in progress to finish
ANNOUNCE_AGAIN_S, CONNECT_S = 2.0, 1.0
WEBSOCKET_BYTES_MAX = 1 << 16  # of a message that a page sends; messages to pages are not limited by this


def main(settings: Settings) -> NoReturn:
    """Serves until SIGTERM or SIGINT, then ends the process: with 0 after a clean stop. Raises `ConfigError` for problems that the
    user has to fix."""
    logs.setup("web", settings)
    websockets_max = descriptors.tunnels_fitting(settings, descriptors.raise_limit(descriptors.of_web(settings)))
    logging.getLogger("django.request").setLevel(logging.ERROR)  # refused requests are counted by metrics, not logged
    current.use(settings)
    if not bootstrap.create_tables(settings):
        bootstrap.prepare(settings)
    os.environ["DJANGO_SETTINGS_MODULE"] = "controlplane.web_settings"
    listener = _listen(settings.host, settings.web_port, "host", "web_port")
    context, between_us = server_context(settings, identifies_clients=True), internal_server_context(settings, "web")
    internal = None
    if context is not None or between_us is not None:  # else brokers use the public listener
        internal = _listen(settings.web_internal_host, settings.web_internal_port, "web_internal_host", "web_internal_port")
    listeners = [(listener, context, "web"), *([(internal, between_us, INTERNAL)] if internal is not None else [])]
    try:
        import uvloop

        code = uvloop.run(_serve(settings, listeners, websockets_max))
    except ImportError:
        code = asyncio.run(_serve(settings, listeners, websockets_max))
    finally:
        for opened, _, _ in listeners:
            opened.close()
    # On PostgreSQL with TLS the last collection of garbage, while the interpreter is taken apart, did not end (Python 3.11.2): the
    # process used a processor until it was killed. There is nothing left to be done.
    logging.shutdown()
    os._exit(code)


Listeners = list[tuple[socket.socket, ssl.SSLContext | None, str]]  # the public one, and the one for brokers, if any


async def _serve(settings: Settings, listeners: Listeners, websockets_max: int) -> int:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    tunnels = gateway.tunnels(settings, websockets_max)
    servers = [
        (_server(settings, context, name, None if name == INTERNAL else tunnels), opened) for opened, context, name in listeners
    ]
    await asyncio.to_thread(bootstrap.create_first_rows, settings)
    from controlplane.api_calls import ApiMeter
    from controlplane.key_uses import KeyUseWriter
    from tenants.http.authentication import key_uses

    meter = await asyncio.to_thread(ApiMeter, settings)
    await meter.start()
    uses = KeyUseWriter(key_uses)
    uses.start()
    running = [asyncio.create_task(server.serve(sockets=[opened])) for server, opened in servers]
    announcing: asyncio.Task[None] | None = None
    try:
        while not all(server.listening.is_set() for server, _ in servers):
            done, _ = await asyncio.wait(running, timeout=0.005, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        _announce(settings, listeners)
        announcing = asyncio.create_task(_stay_announced(settings, listeners))
        log.info("web.ready", web_url=_url(settings, listeners[0][0]))
        ending = asyncio.create_task(stopping.wait())
        await asyncio.wait([*running, announcing, ending], return_when=asyncio.FIRST_COMPLETED)
    finally:
        if announcing is not None:
            announcing.cancel()
        _withdraw(settings)
        for server, _ in servers:
            server.ending.set()
        await asyncio.gather(*running)
        await meter.end()
        await uses.end()
    log.info("web.stopped")
    return 0 if stopping.is_set() else 1


def _server(settings: Settings, context: ssl.SSLContext | None, name: str, tunnels: Tunnels | None = None) -> HttpServer:
    from django.urls import get_resolver

    from controlplane.asgi import application, of_processes, request_queues

    _ = get_resolver().url_patterns  # the first request should not wait for the imports of every page
    server = http_server(
        of_processes if name == INTERNAL else application,
        settings,
        connections_max=settings.http_connections_max,
        tls=context,
        websockets=True,
        websocket_bytes_max=WEBSOCKET_BYTES_MAX,
        grace_s=STOP_S,
        date_header=True,
        tunnels=tunnels,
    )
    if not http_counters.sources:  # all listeners share what stands in line
        http_counters.sources.append(partial(request_samples, name, request_queues))
    http_counters.sources.append(partial(connection_samples, name, server.bounds))
    if tunnels is not None:
        http_counters.sources.append(partial(tunnel_samples, name, tunnels.slots))
    return server


def _listen(host: str, port: int, host_setting: str, port_setting: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"{port_setting} = {port} is in use on {host}: stop the process that uses it, or choose another port "
                "(0 picks a free one)"
            ) from None
        raise ConfigError(
            f"{host_setting} = {host!r}, {port_setting} = {port} cannot be opened: {error.strerror or error}"
        ) from None
    return opened


def _url(settings: Settings, listener: socket.socket) -> str:
    host = settings.client_host
    scheme = "http" if settings.tls == "off" else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


def _internal_url(settings: Settings, listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return f"{'https' if settings.internal_tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def _path(settings: Settings) -> Any:
    return settings.data_path / "run" / "web.json"


async def _stay_announced(settings: Settings, listeners: Listeners) -> None:
    """Of several web processes on one data directory brokers ask the one that began last, then one of the others."""
    while True:
        await asyncio.sleep(ANNOUNCE_AGAIN_S)
        if not await asyncio.to_thread(_somebody_is_announced, settings):
            with contextlib.suppress(OSError):  # a full disk ends no web process
                _announce(settings, listeners)


def _somebody_is_announced(settings: Settings) -> bool:
    """We, or another web process that can be connected to. Blocks for `CONNECT_S`."""
    announced = _announced(settings)
    if announced.get("pid") == os.getpid():
        return True
    try:
        url = urlsplit(str(announced["internal_url"]))
        with socket.create_connection((url.hostname or "", url.port or 0), CONNECT_S):
            return True
    except (KeyError, ValueError, OSError):
        return False


def _announced(settings: Settings) -> dict[str, Any]:
    """run/web.json; nothing where it cannot be read."""
    try:
        announced = json.loads(_path(settings).read_bytes())
    except (OSError, ValueError):
        return {}
    return announced if isinstance(announced, dict) else {}


def _withdraw(settings: Settings) -> None:
    """Removes run/web.json unless another web process has written it."""
    if _announced(settings).get("pid") == os.getpid():
        _path(settings).unlink(missing_ok=True)


def _announce(settings: Settings, listeners: Listeners) -> None:
    """Writes run/web.json atomically."""
    path = _path(settings)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    announcement = {
        "web_url": _url(settings, listeners[0][0]),
        "internal_url": _internal_url(settings, listeners[-1][0]),
        "pid": os.getpid(),
    }
    replace_file(path, json.dumps(announcement).encode(), durable=False)


if __name__ == "__main__":
    try:
        sys.exit(main(load()))
    except ConfigError as error:
        sys.stderr.write(f"magnetar web: {error}\n")
        sys.exit(2)  # a restart would not help: the supervisor gives up and shows the error
