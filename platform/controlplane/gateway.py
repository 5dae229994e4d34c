"""Where the web process passes WebSockets of the broker's clients on to: the broker's WebSocket port."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple
from urllib.parse import urlsplit

from messaging import logs
from messaging.adminrpc.finding import BrokerChoice, choice_of
from messaging.broker_files import any_broker
from messaging.http_server.tunnel import Tunnels, TurnedAway
from messaging.local_caller import own_address
from messaging.settings import Settings
from messaging.tls import certificate_files

log = logs.get_logger("gateway")
PREFIX = "/ws/"
PORTS = {"ws": 80, "wss": 443}
CONNECT_S = 5.0  # to one broker, before the next one is tried


class Target(NamedTuple):
    host: str
    port: int
    tls: ssl.SSLContext | None
    name: str  # that the certificate has to have; empty: its certificate is known


def tunnels(settings: Settings, tunnels_max: int) -> Tunnels | None:
    """None if the web port passes no WebSockets on."""
    if not tunnels_max:
        return None
    # A client that takes nothing answers no PING either: the broker ends it after two intervals.
    stall_s = 2 * settings.keep_alive_ms / 1000
    return Tunnels(PREFIX, _Dialler(settings), tunnels_max, stall_s, settings.trusted_proxies)


class _Dialler:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._choice = choice_of(settings, "web")

    async def __call__(self, make: Callable[[], asyncio.BaseProtocol]) -> TurnedAway:
        """Of several brokers the first that answers. One that turns a WebSocket away may not reach the broker that serves the
        topic, which others do: they are tried before it for a while."""
        loop = asyncio.get_running_loop()
        failed: OSError | None = None
        for url, to in (await asyncio.to_thread(targets, self._settings, self._choice)).items():
            server_hostname = to.name if to.tls is not None else None
            try:
                async with asyncio.timeout(CONNECT_S):
                    await loop.create_connection(make, to.host, to.port, ssl=to.tls, server_hostname=server_hostname)
                return partial(self._choice.did_not_answer, url)
            except OSError as error:  # a `TimeoutError` is one
                failed = error
                log.info("broker-away", url=url or f"ws://{to.host}:{to.port}", why=str(error) or type(error).__name__)
                self._choice.did_not_answer(url)
        raise failed or OSError("no broker that is running has a WebSocket port")


def targets(settings: Settings, choice: BrokerChoice) -> dict[str, Target]:
    """By URL, in the order in which to try: those of the settings, or the broker of this data directory, and then those of other
    machines; last of all those that turned somebody away lately. Raises `OSError` while there is none. Blocks: reads small files,
    and may ask a broker."""
    found: dict[str, Target] = {}
    if not settings.broker_ws_urls:
        try:
            found[""] = _of_data_directory(settings)
        except OSError:
            if not settings.broker_rpc_urls:
                raise
    found |= {url: _of_url(url) for url in choice.ws_urls()}
    return {url: found[url] for url in choice.best_first(found)}


def _of_url(url: str) -> Target:
    parts = urlsplit(url)
    host = parts.hostname or ""
    context = _authorities() if parts.scheme == "wss" else None
    return Target(host, parts.port or PORTS[parts.scheme], context, host)


def _of_data_directory(settings: Settings) -> Target:
    try:
        written = urlsplit(str(any_broker(settings)["ws_url"]))
        port = written.port or PORTS[written.scheme]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OSError(f"run/broker.json in the data directory names no WebSocket port ({type(error).__name__})") from None
    context = _pinned(settings) if written.scheme == "wss" else None
    return Target(own_address(settings.host), port, context, "")


@cache
def _authorities() -> ssl.SSLContext:
    """Those of the system. Loading them takes tens of milliseconds."""
    return ssl.create_default_context()


def _pinned(settings: Settings) -> ssl.SSLContext:
    """Believes the broker's certificate, which is in our files too, and no other one, whatever name it is for."""
    certificates = certificate_files(settings).certificate.read_text()
    own = certificates.partition("-----END CERTIFICATE-----")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate itself is what is trusted, not who signed it
    context.load_verify_locations(cadata=own[0] + own[1])
    return context
