"""Connecting without an event loop."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable

from messaging.client import client as asynchronous
from messaging.client.blocking.generated import Client
from messaging.client.blocking.loop_thread import LoopThread


def connect(
    url: str,
    key: str | Callable[[], str] | Callable[[], Awaitable[str]] | None = None,
    *,
    tls: ssl.SSLContext | None = None,
    open_timeout_s: float = 10.0,
    request_timeout_s: float = 30.0,
    keep_alive_s: float = 30.0,
    memory_bytes_max: int = 64 << 20,
    admin_url: str | None = None,
) -> Client:
    """As `messaging.client.connect`. Starts a thread, which ends with `close`."""
    inner = asynchronous.connect(
        url,
        key,
        tls=tls,
        open_timeout_s=open_timeout_s,
        request_timeout_s=request_timeout_s,
        keep_alive_s=keep_alive_s,
        memory_bytes_max=memory_bytes_max,
        admin_url=admin_url,
    )
    return Client(LoopThread(), inner)
