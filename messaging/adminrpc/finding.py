"""How web, workers and commands find a broker: by what brokers of this machine wrote, or by `broker_rpc_url`, which names one or
several on any machine. Whichever of these answers tells of the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from urllib.parse import urlsplit

import structlog

from messaging.adminrpc.base import Request
from messaging.adminrpc.brokers import BrokerSeen
from messaging.adminrpc.client import AdminRpc
from messaging.adminrpc.methods import BROKERS_LIST
from messaging.broker_files import any_broker
from messaging.errors import MagnetarError, NotReady
from messaging.identity import service_token
from messaging.internal_tls import internal_client_tls
from messaging.local_caller import is_loopback
from messaging.settings import Settings

log = structlog.get_logger("adminrpc")
AVOIDED_S = 10.0
ASKED_AGAIN_S = 30.0
ASK_S = 3.0
Ask = Callable[[str], Sequence[BrokerSeen]]


class BrokerChoice:
    """Which broker a process calls. One that did not answer is left alone for `AVOIDED_S` if there are others. Thread-safe.

    `ask`: the brokers of the platform, as the one of this address tells; raises `MagnetarError`. Without it there are only those
    that the settings name. Whoever needs a broker asks, if nobody did within `ASKED_AGAIN_S`; others meanwhile use what is known.
    """

    def __init__(self, settings: Settings, ask: Ask | None = None, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._ask = ask
        self._now_s = now_s
        self._asking = threading.Lock()
        self._ask_again_s = now_s()
        self._seen: Sequence[BrokerSeen] = ()
        self._avoided: dict[str, float] = {}  # until when, by address

    def rpc_url(self) -> str:
        """Raises `NotReady`."""
        if not self._settings.broker_rpc_urls:
            return _by_files(self._settings, self._still_avoided())
        self._look()
        return _first(self._rpc_urls(), self._still_avoided())

    def ws_urls(self) -> list[str]:
        """Where WebSockets may be passed on to, the best first: to those that the settings name, or else as brokers tell."""
        urls = list(self._settings.broker_ws_urls) or [broker.ws_url for broker in self.seen() if broker.live and broker.ws_url]
        return self.best_first(urls)

    def best_first(self, urls: Iterable[str]) -> list[str]:
        """Those that did not answer lately come last."""
        avoided = self._still_avoided()
        return sorted(urls, key=lambda url: url in avoided)

    def seen(self) -> Sequence[BrokerSeen]:
        """The brokers as one of them told lately; none where the settings name none, or none answered. May block for `ASK_S`."""
        if self._settings.broker_rpc_urls:
            self._look()
        return self._seen

    def name_of(self, url: str) -> str:
        """Its id, as far as brokers told of it."""
        return next((f"broker {broker.broker_id}" for broker in self._seen if broker.rpc_url == url), "the broker")

    def did_not_answer(self, url: str) -> None:
        if not self.avoids(url):
            log.warning("broker.not_responding", rpc_url=url)
        self._avoided = self._avoided | {url: self._now_s() + AVOIDED_S}

    def avoids(self, url: str) -> bool:
        return url in self._still_avoided()

    def _still_avoided(self) -> dict[str, float]:
        now_s = self._now_s()
        self._avoided = {url: until_s for url, until_s in self._avoided.items() if until_s > now_s}
        return self._avoided

    def _rpc_urls(self) -> list[str]:
        named = self._settings.broker_rpc_urls
        here = any(is_loopback(urlsplit(url).hostname or "") for url in named)
        told = [broker.rpc_url for broker in self._seen if broker.live and broker.rpc_url]
        # A loopback address that another machine told would be of somebody else here.
        urls = dict.fromkeys([*named, *(url for url in told if here or not is_loopback(urlsplit(url).hostname or ""))])
        # One that others take for gone may still answer, as where it is cut off from its database alone.
        gone = {broker.rpc_url for broker in self._seen if not broker.live}
        return sorted(urls, key=lambda url: url in gone)

    def _look(self) -> None:
        if self._ask is None or self._now_s() < self._ask_again_s or not self._asking.acquire(blocking=False):
            return
        try:
            for url in self._rpc_urls():
                if url in self._still_avoided():
                    continue
                try:
                    self._seen = self._ask(url)
                    self._ask_again_s = self._now_s() + ASKED_AGAIN_S
                    return
                except MagnetarError:
                    self.did_not_answer(url)
            self._ask_again_s = self._now_s() + AVOIDED_S
        finally:
            self._asking.release()


def choice_of(settings: Settings, service: str) -> BrokerChoice:
    """That of process `service`. Raises `ConfigError`."""
    tls = internal_client_tls(settings, service)

    def ask(url: str) -> Sequence[BrokerSeen]:
        client = AdminRpc(lambda: url, partial(service_token, settings, service), ASK_S, tls)
        try:
            return client.call(BROKERS_LIST, Request()).brokers
        finally:
            client.close()

    return BrokerChoice(settings, ask)


def admin_rpc(settings: Settings, service: str, choice: BrokerChoice, timeout_s: float = 10.0) -> AdminRpc:
    """Calls of process `service` to the broker that `choice` names. Raises `ConfigError`."""
    tls = internal_client_tls(settings, service)
    token = partial(service_token, settings, service)
    return AdminRpc(choice.rpc_url, token, timeout_s, tls, choice.did_not_answer, choice.avoids, choice.name_of)


def _first(urls: Sequence[str], avoided: dict[str, float]) -> str:
    """The one that was avoided first if all are."""
    return next((url for url in urls if url not in avoided), None) or min(urls, key=lambda url: avoided[url])


def _by_files(settings: Settings, avoided: dict[str, float]) -> str:
    try:
        return str(any_broker(settings, avoided)["rpc_url"])
    except FileNotFoundError:
        raise NotReady(
            "the broker is not running (run/broker.json does not exist in the data directory): start it and try again"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotReady(
            f"run/broker.json in the data directory cannot be read ({type(error).__name__}): restart the broker"
        ) from None
