"""The broker, as the control plane calls it.

`AdminRpc` keeps one connection a thread. Django's request threads come and go, so calls run on a few threads that stay. They are
taken in turns by tenant, and a read whose caller has left is ended, or not begun.
"""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError
from contextlib import nullcontext
from functools import partial

from django.conf import settings as django_settings

from messaging.adminrpc.base import A, Method, R
from messaging.adminrpc.calls import TypedCalls
from messaging.adminrpc.client import AdminRpc
from messaging.broker_files import BrokerChoice, any_broker
from messaging.caller import current_caller
from messaging.errors import NotReady
from messaging.fairness.threads import FairThreads
from messaging.identity import service_token
from messaging.internal_tls import internal_client_tls
from messaging.settings import Settings

_THREADS = 16
ANSWER_S = 20.0
PROBE = "health"  # who a health check is

_lock = threading.Lock()
_rpc: TypedCalls | None = None


class PooledRpc(TypedCalls):
    """Each call waits for its turn and its answer, `ANSWER_S` at most; then it raises `NotReady`."""

    def __init__(self, inner: TypedCalls, threads_max: int = _THREADS) -> None:
        self._inner = inner
        self._threads = FairThreads(threads_max, "broker-rpc")

    def perform(self, method: Method[R, A], request: R) -> A:
        caller = current_caller()
        answer = self._threads.submit(caller.tenant, lambda: self._inner.perform(method, request))
        try:
            with caller.ending(answer.cancel) if method.long_read else nullcontext():
                return answer.result(ANSWER_S)
        except CancelledError:
            raise NotReady(f"the caller left before the answer to {method.name}") from None
        except TimeoutError:
            raise NotReady(f"there was no answer to {method.name} within {ANSWER_S:g} s: try again in a moment") from None
        finally:
            answer.cancel()  # what nobody waits for any more is not begun

    @property
    def waiting(self) -> int:
        return self._threads.waiting

    def takes_calls(self, within_s: float) -> bool:
        """Whether somebody who has no calls gets a turn in time. Whether the broker answers is another question."""
        turn = self._threads.submit(PROBE, lambda: None)
        try:
            turn.result(within_s)
        except TimeoutError:
            turn.cancel()
            return False
        return True


def rpc() -> TypedCalls:
    """Calls the broker as the process that this is. Blocks when called. Raises `NotReady` on a call while the broker is away."""
    global _rpc
    with _lock:
        if _rpc is None:
            settings: Settings = django_settings.MAGNETAR
            service: str = django_settings.MAGNETAR_SERVICE
            tls = internal_client_tls(settings, service)
            choice = BrokerChoice(settings)
            token = partial(service_token, settings, service)
            _rpc = PooledRpc(AdminRpc(choice.rpc_url, token, tls=tls, did_not_answer=choice.did_not_answer))
        return _rpc


def addresses() -> dict[str, str]:
    """Where clients find the broker, as it wrote when it became ready: `broker_url`, `broker_url_tls`, `ws_url`. Empty while it is
    down. Reads a small file."""
    settings: Settings = django_settings.MAGNETAR
    try:
        return {key: str(value) for key, value in any_broker(settings).items() if value}
    except (OSError, ValueError):
        return {}


def takes_calls(within_s: float) -> bool:
    """Whether calls to the broker are begun. Blocks for up to `within_s`."""
    client = rpc()
    return not isinstance(client, PooledRpc) or client.takes_calls(within_s)


def use(client: TypedCalls | None) -> None:
    """Another client, for tests; None goes back to our own."""
    global _rpc
    with _lock:
        _rpc = client
