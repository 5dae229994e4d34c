"""The broker, as the control plane calls it.

`AdminRpc` keeps one connection a thread. Django's request threads come and go, so calls run on a few threads that stay.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.conf import settings as django_settings

from messaging.adminrpc import schema as s
from messaging.adminrpc.calls import TypedCalls
from messaging.adminrpc.client import AdminRpc, broker_rpc_url
from messaging.identity import service_token
from messaging.settings import Settings

_THREADS = 8
A = TypeVar("A", bound=s.Answer)

_lock = threading.Lock()
_rpc: TypedCalls | None = None


class PooledRpc(TypedCalls):
    def __init__(self, inner: TypedCalls, threads: int = _THREADS) -> None:
        self._inner = inner
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="broker-rpc")

    def perform(self, method: str, request: s.Request, answer_type: type[A]) -> A:
        return self._pool.submit(self._inner.perform, method, request, answer_type).result()


def rpc() -> TypedCalls:
    """Blocks when called. Raises `NotReady` on a call while the broker is away."""
    global _rpc
    with _lock:
        if _rpc is None:
            settings: Settings = django_settings.MAGNETAR
            _rpc = PooledRpc(AdminRpc(lambda: broker_rpc_url(settings), lambda: service_token(settings, "web")))
        return _rpc


def use(client: TypedCalls | None) -> None:
    """Another client, for tests and processes of another identity; None goes back to our own."""
    global _rpc
    with _lock:
        _rpc = client
