"""The console's way to the broker: the admin RPC, from pages (blocking) and from the live feed (awaiting).

The client keeps one connection per thread. Pages run on threads that come and go, so calls go through a small pool of our own,
whose threads and connections stay. A page waits at most `ANSWER_S`; what it then says is "the broker does not answer", never a
blank.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from django.conf import settings as django_settings

from messaging.adminrpc import schema as s
from messaging.adminrpc.calls import TypedCalls
from messaging.errors import MagnetarError, NotReady
from messaging.settings import Settings
from tenants.broker import rpc

ANSWER_S = 5.0
THREADS = 8
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Addresses:
    """What clients connect to; empty where the broker is not running or does not listen."""

    broker_url: str = ""
    broker_url_tls: str = ""
    ws_url: str = ""


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="broker-rpc")


def _submit(call: Callable[[TypedCalls], T]) -> Future[T]:
    return _pool().submit(lambda: call(rpc()))


def ask(call: Callable[[TypedCalls], T]) -> T:
    """What `call` returns, for pages. Raises the broker's errors; `NotReady` where it does not answer in time."""
    try:
        return _submit(call).result(ANSWER_S)
    except TimeoutError:
        raise NotReady(f"the broker did not answer within {ANSWER_S:g} s: try again in a moment") from None


def why(error: MagnetarError) -> str:
    """What was wrong, without what to do about it: for a page that asks again by itself, or goes on with its own advice."""
    text = error.message or "the broker cannot be reached"
    return text.partition(": ")[0] if isinstance(error, NotReady) else text


def ask_or_why(call: Callable[[TypedCalls], T]) -> tuple[T | None, str]:
    """The answer and "", or None and why there is none. For pages that can be shown without it."""
    try:
        return ask(call), ""
    except MagnetarError as error:
        return None, why(error)


async def namespace_live(namespace: str) -> s.NamespaceLive:
    """For `LiveHub`: one poll."""
    return await asyncio.wrap_future(_submit(lambda client: client.call("namespaces.live", s.TopicsList(namespace=namespace))))


def addresses() -> Addresses:
    """What the broker wrote when it became ready. Reads a small file."""
    settings: Settings = django_settings.MAGNETAR
    try:
        found = json.loads((settings.data_path / "run" / "broker.json").read_bytes())
        return Addresses(*(str(found.get(key) or "") for key in ("broker_url", "broker_url_tls", "ws_url")))
    except (OSError, ValueError, AttributeError):
        return Addresses()
